//! A real Chromium, driven over HTTP.

use super::{PATIENCE, wait_until};
use redlatch_testbed::{Chromium, Process, Scratch};
use serde_json::{Value, json};
use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

/// How long the browser may take to answer.
const SLOW: Duration = Duration::from_secs(60);

/// A window with one page.
pub struct Browser {
    port: u16,
    session: String,
    // Dropped in this order: the process before its files.
    _driver: Process,
    _scratch: Scratch,
}

impl Browser {
    /// Opens a window of this size; `dark` is what its user prefers.
    pub fn open(url: &str, (width, height): (u32, u32), dark: bool) -> Self {
        let found = Chromium::find();
        let Chromium { browser, driver } =
            found.expect("Chromium not found: run `cargo xtask servers`");
        let scratch = Scratch::new().unwrap();
        let said = scratch.file("driver");
        let mut command = Command::new(driver);
        command.arg("--port=0").stdin(Stdio::null()).stderr(Stdio::null());
        command.stdout(File::create(&said).unwrap()).env("TMPDIR", scratch.path());
        let driver = Process::spawn(command).unwrap();
        let mut port = None;
        let is_up = wait_until(SLOW, || {
            let said = fs::read_to_string(&said).unwrap_or_default();
            let rest = said.split_once("successfully on port ").map(|(_, rest)| rest.to_owned());
            port = rest.and_then(|rest| rest.split_once('.')?.0.parse().ok());
            port.is_some()
        });
        assert!(is_up, "chromedriver does not start: {:?}", fs::read_to_string(&said));
        let port = port.unwrap();
        let mut args = vec![
            "--headless".to_owned(),
            "--no-sandbox".into(),
            "--disable-gpu".into(),
            "--disable-quic".into(),
            "--disable-dev-shm-usage".into(),
            "--no-first-run".into(),
            "--disable-background-networking".into(),
            "--disable-component-update".into(),
            "--disable-sync".into(),
            "--hide-scrollbars".into(),
            // It ends when the driver does, however that ends.
            "--remote-debugging-pipe".into(),
            format!("--window-size={width},{height}"),
            format!("--user-data-dir={}", scratch.file("profile").display()),
        ];
        if dark {
            args.push("--force-dark-mode".into());
        }
        let options = json!({ "binary": browser, "args": args });
        let wanted = json!({
            "browserName": "chrome",
            "goog:chromeOptions": options,
            "goog:loggingPrefs": { "browser": "ALL" },
            "unhandledPromptBehavior": "ignore",
        });
        let asked = json!({ "capabilities": { "alwaysMatch": wanted } });
        let told = ask(port, "POST", "/session", &asked);
        let session = told["sessionId"].as_str().unwrap_or_else(|| panic!("{told}")).to_owned();
        let window = Browser { port, session, _driver: driver, _scratch: scratch };
        // Headless windows are never smaller than 500 pixels; phones are.
        let metrics = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500,
        });
        window.devtools("Emulation.setDeviceMetricsOverride", &metrics);
        let scheme = if dark { "dark" } else { "light" };
        let media = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        window.devtools("Emulation.setEmulatedMedia", &media);
        window.command("POST", "/url", &json!({ "url": url }));
        window
    }

    fn command(&self, method: &str, path: &str, body: &Value) -> Value {
        ask(self.port, method, &format!("/session/{}{path}", self.session), body)
    }

    fn devtools(&self, command: &str, parameters: &Value) -> Value {
        let body = json!({ "cmd": command, "params": parameters });
        self.command("POST", "/goog/cdp/execute", &body)
    }

    /// What this script returns.
    pub fn run(&self, script: &str) -> Value {
        self.command("POST", "/execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// The text that a reader sees there.
    pub fn text(&self, selector: &str) -> String {
        let selector = json!(selector);
        let told = self.run(&format!("return document.querySelector({selector})?.innerText ?? ''"));
        told.as_str().unwrap_or_default().to_owned()
    }

    /// Waits until a reader sees this there.
    #[track_caller]
    pub fn shows(&self, selector: &str, text: &str) {
        let mut seen = String::new();
        let is_shown = wait_until(PATIENCE, || {
            seen = self.text(selector);
            seen.contains(text)
        });
        assert!(is_shown, "{selector} never showed {text:?}, but {seen:?}");
    }

    /// The element, once it can be seen.
    fn element(&self, selector: &str) -> String {
        let mut found = Value::Null;
        let body = json!({ "using": "css selector", "value": selector });
        let is_there = wait_until(PATIENCE, || {
            found = self.command("POST", "/element", &body);
            found["element-6066-11e4-a52e-4f735466cecf"].is_string()
        });
        assert!(is_there, "{selector}: {found}");
        found["element-6066-11e4-a52e-4f735466cecf"].as_str().unwrap().to_owned()
    }

    pub fn click(&self, selector: &str) {
        let element = self.element(selector);
        let told = self.command("POST", &format!("/element/{element}/click"), &json!({}));
        assert_eq!(told, Value::Null, "{selector}");
    }

    pub fn type_into(&self, selector: &str, text: &str) {
        let element = self.element(selector);
        let body = json!({ "text": text });
        let told = self.command("POST", &format!("/element/{element}/value"), &body);
        assert_eq!(told, Value::Null, "{selector}");
    }

    /// What the page, or the browser about the page, has complained of.
    pub fn complaints(&self) -> Vec<String> {
        let log = self.command("POST", "/se/log", &json!({ "type": "browser" }));
        let lines = log.as_array().cloned().unwrap_or_default();
        lines.iter().map(|line| line["message"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Keeps a picture of the page for the guide, if new ones are wanted.
    pub fn keep_picture(&self, name: &str) {
        if let Some(dir) = std::env::var_os("REDLATCH_PICTURES") {
            let told = self.command("GET", "/screenshot", &Value::Null);
            let picture = base64(told.as_str().unwrap());
            fs::write(Path::new(&dir).join(format!("{name}.png")), picture).unwrap();
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = self.command("DELETE", "", &Value::Null);
        }
    }
}

/// Asks the driver, and returns the value of its answer.
fn ask(port: u16, method: &str, path: &str, body: &Value) -> Value {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(SLOW)).unwrap();
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
    .unwrap();
    // It keeps the connection, so the length counts.
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if line.trim().is_empty() {
            break;
        }
        let (name, value) = line.split_once(':').unwrap_or_default();
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let mut told: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    told["value"].take()
}

fn base64(text: &str) -> Vec<u8> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b'=').map(digit).collect();
    let mut bytes = Vec::with_capacity(digits.len() * 3 / 4);
    for four in digits.chunks(4) {
        let bits = four.iter().fold(0_u32, |bits, digit| bits << 6 | u32::from(*digit));
        let bits = bits << (6 * (4 - four.len()));
        bytes.extend(&bits.to_be_bytes()[1..four.len()]);
    }
    bytes
}
