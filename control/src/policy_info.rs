//! Descriptions of gates and stop rules for users.

/// An entry of the table of gates or of stop rules; `T` is what it comes to.
#[derive(Debug)]
pub struct PolicyInfo<T: 'static> {
    /// The name that users write.
    pub name: &'static str,
    /// The papers' letter for its threshold, a probability, with the threshold that it has if none is given.
    pub threshold: Option<(&'static str, f64)>,
    /// One sentence that explains it to users.
    pub explanation: &'static str,
    /// The paper or project that first described it.
    pub source: &'static str,
    /// True if the text may be distributed otherwise than the target's.
    pub lossy: bool,
    /// The head that the draft model must have been given for it: `gate` or `stop`.
    pub head: Option<&'static str>,
    /// The options that it reads, of those that not all of its kind read.
    pub options: &'static [&'static str],
    /// The policy of a threshold, if one is given.
    pub of: fn(Option<f64>) -> T,
}
