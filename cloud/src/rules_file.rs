//! Acceptance rules from a file: expressions over both distributions, for experiments with rules of one's own.
//!
//! ```toml
//! [[rule]]
//! name = "near-best"
//! defer = "p < (1 - alpha) * max_p"
//! default = 0.3
//! most = 1
//! explanation = "Keep the tokens that the target gives at least 1 − α times what it gives its best one."
//! ```
//!
//! `defer` is r(v) of equation 11 in Narasimhan et al., "Faster Cascades via Speculative Decoding": the share, 0 to 1
//! or a truth value, in which the target takes the place of the draft at token v. The text is then distributed as
//! π(v) = q̂(v)·(1 − r(v)) + p(v)·Σ r·q̂ at each drafted position. Variables, all of them of what is sampled from:
//!
//! | variable | meaning |
//! |---|---|
//! | `p`, `q` | probability of the token by the target and by the draft as sent |
//! | `max_p`, `max_q` | largest probability of each |
//! | `entropy_p`, `entropy_q` | entropy of each, in nats |
//! | `tv` | total variation distance of both |
//! | `alpha` | the rule's parameter |
//!
//! Operators are Jinja's (`+ - * / **`, comparisons, `and`, `or`, `not`, `A if B else C`), with the functions `ln`,
//! `exp`, `min` and `max`.

use std::{fs, io, path::Path};

use minijinja::{Environment, Error, Expression, UndefinedBehavior, Value, context};
use outrider_speculation::judge::{OwnRule, OwnRuleError, Position, Range, Rule, RuleInfo};
use serde::Deserialize;

/// Failure to read acceptance rules.
#[derive(Debug, thiserror::Error)]
pub enum RulesFileError {
    /// The file cannot be read.
    #[error("the rules {path} cannot be read: {error}")]
    Read {
        /// Path of the file of rules.
        path: String,
        /// Error of the operating system.
        error: io::Error,
    },
    /// The file is not a table of rules.
    #[error("line {line} of the rules {path}: {message}")]
    Toml {
        /// Path of the file of rules.
        path: String,
        /// Number of the line, from 1.
        line: usize,
        /// Error of the TOML parser.
        message: String,
    },
    /// An expression cannot be evaluated.
    #[error("defer of the rule {rule:?} cannot be evaluated: {error}")]
    Expression {
        /// Name of the rule in the file.
        rule: String,
        /// Error of the expression.
        error: Error,
    },
    /// An expression has a name that is no variable or function.
    #[error("defer of the rule {rule:?} names {name}; it knows {}", NAMES.join(", "))]
    Name {
        /// Name of the rule in the file.
        rule: String,
        /// Name in the expression.
        name: String,
    },
    /// The value of an expression is not a share.
    #[error("defer of the rule {rule:?} gives {value}; it must be a number from 0 to 1, or a truth value")]
    Share {
        /// Name of the rule in the file.
        rule: String,
        /// Value that the expression gives.
        value: String,
    },
    /// The rules cannot be registered.
    #[error(transparent)]
    Rule(#[from] OwnRuleError),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    rule: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    name: String,
    defer: String,
    #[serde(default)]
    default: f64,
    /// The largest value of α; any number if not given.
    most: Option<f64>,
    explanation: Option<String>,
    paper: Option<String>,
}

/// Reads the rules of a file and registers them for this process.
///
/// # Errors
/// If the file is no table of rules, an expression is wrong, or a name is taken.
pub fn register(path: &Path) -> Result<(), RulesFileError> {
    let shown = || path.display().to_string();
    let text = fs::read_to_string(path).map_err(|error| RulesFileError::Read { path: shown(), error })?;
    let table: Table = toml::from_str(&text).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start);
        let line = text.bytes().take(start).filter(|&byte| byte == b'\n').count() + 1;
        RulesFileError::Toml { path: shown(), line, message: error.message().to_owned() }
    })?;
    let rules = table.rule.into_iter().map(own_rule).collect::<Result<_, _>>()?;
    Ok(Rule::register(rules)?)
}

/// Names that an expression may have: variables and functions.
const NAMES: [&str; 12] =
    ["p", "q", "max_p", "max_q", "entropy_p", "entropy_q", "tv", "alpha", "ln", "exp", "min", "max"];
/// Probabilities of tokens for which an expression is tried.
const TRIED: [f64; 5] = [0.25, 0.0, 0.05, 0.6, 1.0];

/// Variables of a token at a position.
struct Variables {
    p: f64,
    q: f64,
    max_p: f64,
    max_q: f64,
    entropy_p: f64,
    entropy_q: f64,
    tv: f64,
    alpha: f64,
}

fn own_rule(row: Row) -> Result<OwnRule, RulesFileError> {
    // Rules last as long as the process.
    let leak = |text: String| -> &'static str { text.leak() };
    let (name, defer) = (leak(row.name), leak(row.defer));
    let failed = |error| RulesFileError::Expression { rule: name.to_owned(), error };
    let environment: &'static Environment<'static> = Box::leak(Box::new(environment()));
    let expression = environment.compile_expression(defer).map_err(failed)?;
    if let Some(unknown) = expression.undeclared_variables(false).into_iter().find(|of| !NAMES.contains(&of.as_str())) {
        return Err(RulesFileError::Name { rule: name.to_owned(), name: unknown });
    }
    for (index, (p, q)) in TRIED.into_iter().flat_map(|p| TRIED.map(|q| (p, q))).enumerate() {
        let (max_p, max_q) = (p.max(0.5), q.max(0.5));
        let tried = Variables { p, q, max_p, max_q, entropy_p: 1.0, entropy_q: 1.0, tv: 0.5, alpha: row.default };
        // For some tokens an expression may fail, such as by a division by zero: the target decides.
        let value = match evaluate(&expression, &tried) {
            Err(error) if index == 0 => return Err(failed(error)),
            Err(_) => continue,
            Ok(value) => value,
        };
        if !share(&value).is_some_and(|share| (0.0..=1.0).contains(&share)) {
            return Err(RulesFileError::Share { rule: name.to_owned(), value: value.to_string() });
        }
    }
    let mut info = RuleInfo::own(name);
    info.symbol = defer.contains("alpha").then_some("α");
    info.default = row.default;
    info.range = row.most.map_or(info.range, Range::UpTo);
    info.explanation = row.explanation.map_or(info.explanation, leak);
    info.paper = row.paper.map_or(info.paper, leak);
    Ok(OwnRule { info, defer: Box::new(move |position, alpha| shares(&expression, position, alpha)) })
}

/// Number functions that expressions have beside Jinja's operators.
fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.add_function("ln", f64::ln);
    environment.add_function("exp", f64::exp);
    environment.add_function("min", f64::min);
    environment.add_function("max", f64::max);
    environment
}

fn evaluate(expression: &Expression<'_, '_>, variables: &Variables) -> Result<Value, Error> {
    let &Variables { p, q, max_p, max_q, entropy_p, entropy_q, tv, alpha } = variables;
    expression.eval(context! { p, q, max_p, max_q, entropy_p, entropy_q, tv, alpha })
}

/// A number, or a truth value as 0 or 1.
fn share(value: &Value) -> Option<f64> {
    match bool::try_from(value.clone()) {
        Ok(truth) => Some(f64::from(u8::from(truth))),
        Err(_) => f64::try_from(value.clone()).ok(),
    }
}

/// r of each token of q̂'s support. Where an expression fails, such as by a division by zero, the target decides.
fn shares(expression: &Expression<'_, '_>, position: &Position<'_>, alpha: f64) -> Vec<f64> {
    let total = f64::from(position.q.total());
    let q: Vec<f64> = position.q.counts().iter().map(|&count| f64::from(count) / total).collect();
    let p = position.p.dense();
    let ids = position.q.ids();
    let largest = |row: &[f64]| row.iter().copied().fold(0.0, f64::max);
    let entropy = |row: &[f64]| row.iter().filter(|&&x| x > 0.0).map(|x| -x * x.ln()).sum();
    // Σ max(0, q̂ − p)
    let tv = ids.iter().zip(&q).map(|(&id, q)| (q - p[id as usize]).max(0.0)).sum();
    let (max_p, max_q, entropy_p, entropy_q) = (largest(&p), largest(&q), entropy(&p), entropy(&q));
    let of_token = |(&id, &q): (&u32, &f64)| {
        let p = p[id as usize];
        let variables = Variables { p, q, max_p, max_q, entropy_p, entropy_q, tv, alpha };
        evaluate(expression, &variables).ok().as_ref().and_then(share).unwrap_or(1.0)
    };
    ids.iter().zip(&q).map(of_token).collect()
}
