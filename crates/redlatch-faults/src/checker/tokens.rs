//! Fencing: a grant requested after another one arrived has the greater token,
//! and no token is granted twice.

use super::attempts::{Attempt, Grant};
use std::{
    collections::{BTreeMap, HashMap},
    fmt,
};

/// A token that breaks the promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TokenFault {
    Repeated {
        resource: String,
        token: u64,
        first: String,
        second: String,
    },
    /// An earlier grant has a greater one.
    Disordered {
        resource: String,
        token: u64,
        who: String,
        earlier: String,
        greater: u64,
    },
}

pub(crate) fn find(attempts: &[Attempt<'_>]) -> Vec<TokenFault> {
    let mut granted: BTreeMap<&str, Vec<(&Attempt<'_>, Grant)>> = BTreeMap::new();
    for attempt in attempts {
        if let Some(grant) = attempt.grant {
            granted.entry(attempt.resource).or_default().push((attempt, grant));
        }
    }
    let each = granted.into_iter();
    each.flat_map(|(resource, mut grants)| {
        let mut faults = repeated(resource, &grants);
        faults.extend(disordered(resource, &mut grants));
        faults
    })
    .collect()
}

fn repeated(resource: &str, grants: &[(&Attempt<'_>, Grant)]) -> Vec<TokenFault> {
    let mut seen: HashMap<u64, &Attempt<'_>> = HashMap::new();
    let mut faults = Vec::new();
    for (attempt, grant) in grants {
        if let Some(first) = seen.insert(grant.token, attempt) {
            faults.push(TokenFault::Repeated {
                resource: resource.to_owned(),
                token: grant.token,
                first: first.name(),
                second: attempt.name(),
            });
        }
    }
    faults
}

/// Walks the attempts in the order of request and, beside them, the grants in the
/// order of arrival: only the greatest earlier token matters.
fn disordered(resource: &str, grants: &mut [(&Attempt<'_>, Grant)]) -> Vec<TokenFault> {
    grants.sort_by_key(|(_, grant)| grant.at);
    let mut asked: Vec<_> = grants.to_vec();
    asked.sort_by_key(|(attempt, _)| attempt.tried);
    let mut come = grants.iter().peekable();
    let mut greatest: Option<(u64, &Attempt<'_>)> = None;
    let mut faults = Vec::new();
    for (attempt, grant) in asked {
        while let Some((earlier, earlier_grant)) =
            come.next_if(|(_, earlier)| earlier.at < attempt.tried)
        {
            if greatest.is_none_or(|(token, _)| token < earlier_grant.token) {
                greatest = Some((earlier_grant.token, earlier));
            }
        }
        if let Some((greater, earlier)) = greatest
            && greater > grant.token
        {
            faults.push(TokenFault::Disordered {
                resource: resource.to_owned(),
                token: grant.token,
                who: attempt.name(),
                earlier: earlier.name(),
                greater,
            });
        }
    }
    faults
}

impl fmt::Display for TokenFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Repeated { resource, token, first, second } => {
                write!(f, "{resource}: token {token} was given to {first} and to {second}")
            }
            Self::Disordered { resource, token, who, earlier, greater } => write!(
                f,
                "{resource}: {who} got token {token}, {earlier} before it had got {greater}"
            ),
        }
    }
}
