//! What is left of a run: figures as JSON and a plot in `target/bench`; when asked
//! to, both in `docs`, and the README's tables made from the same JSON.

mod plot;
mod readme;
mod report;

use self::report::Report;
use crate::{cli::Plan, table::Table};
use anyhow::Context as _;
use redlatch_testbed::Flavour;
use serde_json::json;
use std::{
    fs,
    path::{Path, PathBuf},
    thread::available_parallelism,
};

const FIGURES: &str = "bench.json";
const PLOT: &str = "bench.svg";
const README: &str = "README.md";

pub(crate) fn save(plan: &Plan, tables: &[Table]) -> anyhow::Result<()> {
    let report = Report::new(json!({
        "setup": setup(plan),
        "tables": tables.iter().map(Table::to_json).collect::<Vec<_>>(),
    }));
    write_to(&Flavour::servers_dir().with_file_name("bench"), &report)?;
    if !plan.write {
        return Ok(());
    }
    write_to(&workspace().join("docs"), &report)?;
    let path = workspace().join(README);
    let page = fs::read_to_string(&path).context(README)?;
    fs::write(&path, readme::filled(&page, &report)?).context(README)?;
    Ok(())
}

/// What a reader of the figures must know.
fn setup(plan: &Plan) -> serde_json::Value {
    let version = |flavour: Flavour| flavour.find().map(|found| found.version).ok();
    json!({
        "short": plan.short,
        "cores": available_parallelism().map_or(0, usize::from),
        "redis": version(Flavour::Redis7),
        "valkey": version(Flavour::Valkey),
        "redlatch": env!("CARGO_PKG_VERSION"),
    })
}

fn write_to(dir: &Path, report: &Report) -> anyhow::Result<()> {
    fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    for (name, text) in [(FIGURES, report.to_string()), (PLOT, plot::of(report))] {
        let path = dir.join(name);
        fs::write(&path, text).with_context(|| path.display().to_string())?;
        eprintln!("written {}", path.display());
    }
    Ok(())
}

fn workspace() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.ancestors().nth(2).unwrap_or(package).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readme_and_plot_show_the_figures_in_docs() -> anyhow::Result<()> {
        let read = |name: &str| fs::read_to_string(workspace().join(name));
        let report = Report::parse(&read("docs/bench.json")?)?;
        let page = read(README)?;

        let again = "run `cargo xtask bench --write`";
        assert!(readme::filled(&page, &report)? == page, "README.md differs: {again}");
        assert!(plot::of(&report) == read("docs/bench.svg")?, "docs/bench.svg differs: {again}");
        Ok(())
    }
}
