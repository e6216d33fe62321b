//! Named choices: each is one entry of a table that the command line, the page, the package and the docs are made of.

/// A choice among several named ways to do something.
pub trait Choice: Copy + Eq + core::fmt::Debug + 'static {
    /// All choices, in the order that users see.
    const ALL: &'static [Self];

    /// The name of the choice, as users write it.
    fn name(self) -> &'static str;

    /// Returns the choice of that name.
    ///
    /// # Errors
    /// If there is none: a sentence that lists all names.
    fn named(name: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().copied().find(|choice| choice.name() == name);
        found.ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|choice| choice.name()).collect();
            format!("it must be one of {}, not {name:?}", names.join(", "))
        })
    }
}

/// Declares an enum whose variants are entries of a table: `Variant = entry`, each with a field `name`.
#[macro_export]
macro_rules! choices {
    (
        $(#[$meta:meta])*
        $type:ident: $info:ty { $($(#[$about:meta])+ $variant:ident = $entry:expr),+ $(,)? }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $type {
            $($(#[$about])+ $variant,)+
        }

        impl $type {
            /// The entry of the table for this choice.
            pub fn info(self) -> &'static $info {
                match self {
                    $(Self::$variant => const { &$entry },)+
                }
            }
        }

        impl $crate::choice::Choice for $type {
            const ALL: &'static [Self] = &[$(Self::$variant),+];

            fn name(self) -> &'static str {
                self.info().name
            }
        }

        impl core::str::FromStr for $type {
            type Err = String;

            fn from_str(name: &str) -> Result<Self, String> {
                <Self as $crate::choice::Choice>::named(name)
            }
        }
    };
}
