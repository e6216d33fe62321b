//! Choice of the instruction set.
//!
//! No other module makes this choice. A build for browsers only has the kernels that it can choose, because the
//! portable ones alone would be a tenth of the download. Test builds have all kernels.

use std::sync::OnceLock;

use super::{
    format::Format,
    lanes::Lanes,
    products::{Product, product},
    rounded::{QuadForm, Wanted},
};

/// Instruction set with kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Isa {
    /// AVX-512 on x86-64, with F, BW, VL and VNNI.
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// AVX2 on x86-64, with F16C.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// WebAssembly with relaxed SIMD, if it has an instruction for the dot product of four bytes.
    #[cfg(all(target_arch = "wasm32", target_feature = "relaxed-simd"))]
    RelaxedDot,
    /// WebAssembly with relaxed SIMD.
    #[cfg(all(target_arch = "wasm32", target_feature = "relaxed-simd"))]
    Relaxed,
    /// WebAssembly with SIMD.
    #[cfg(all(target_feature = "simd128", any(test, not(target_feature = "relaxed-simd"))))]
    Simd128,
    /// NEON on aarch64, with dot products of bytes.
    #[cfg(target_arch = "aarch64")]
    Neon,
    /// Portable kernels, without special instructions.
    #[cfg(any(test, not(target_feature = "simd128")))]
    Portable,
}

/// Properties of an instruction set's kernels.
struct Facts {
    name: &'static str,
    sign_flips: u32,
    rows: usize,
    form: QuadForm,
    small_form: QuadForm,
}

impl Facts {
    const fn of<S: Lanes>(name: &'static str) -> Self {
        Self { name, sign_flips: S::SIGN_FLIPS, rows: S::ROWS, form: S::FORM, small_form: S::SMALL_FORM }
    }
}

impl Isa {
    /// Instruction set of this process: the fastest that the processor supports, unless `OUTRIDER_ISA` names another.
    pub(crate) fn current() -> Self {
        static CHOICE: OnceLock<Isa> = OnceLock::new();
        *CHOICE.get_or_init(|| {
            let available = Self::available();
            Self::named().ok().flatten().unwrap_or(available[0])
        })
    }

    /// Instruction set that `OUTRIDER_ISA` names, if it is set.
    ///
    /// # Errors
    /// Value of the variable, if it does not name an instruction set of this processor.
    pub(crate) fn named() -> Result<Option<Self>, String> {
        let Some(name) = std::env::var_os("OUTRIDER_ISA").filter(|name| !name.is_empty()) else { return Ok(None) };
        let known = Self::available().into_iter().find(|isa| name == isa.name());
        known.map(Some).ok_or_else(|| name.to_string_lossy().into_owned())
    }

    /// Instruction sets that this processor supports, fastest first.
    #[allow(clippy::vec_init_then_push, reason = "what is pushed differs from target to target")]
    pub(crate) fn available() -> Vec<Self> {
        let mut available = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            let avx512 = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512vnni");
            if avx512 {
                available.push(Self::Avx512);
            }
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("f16c") {
                available.push(Self::Avx2);
            }
        }
        #[cfg(all(target_arch = "wasm32", target_feature = "relaxed-simd"))]
        {
            // Both run on every engine with relaxed SIMD.
            available.extend([Self::Relaxed, Self::RelaxedDot]);
            if dot_is_one_instruction() {
                available.swap(0, 1);
            }
        }
        #[cfg(all(target_feature = "simd128", any(test, not(target_feature = "relaxed-simd"))))]
        available.push(Self::Simd128);
        #[cfg(target_arch = "aarch64")]
        if std::arch::is_aarch64_feature_detected!("dotprod") {
            available.push(Self::Neon);
        }
        #[cfg(any(test, not(target_feature = "simd128")))]
        available.push(Self::Portable);
        available
    }

    const fn facts(self) -> Facts {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => Facts::of::<Avx512>("avx512"),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => Facts::of::<Avx2>("avx2"),
            #[cfg(all(target_arch = "wasm32", target_feature = "relaxed-simd"))]
            Self::RelaxedDot => Facts::of::<Wasm<RelaxedDot>>("relaxed-dot"),
            #[cfg(all(target_arch = "wasm32", target_feature = "relaxed-simd"))]
            Self::Relaxed => Facts::of::<Wasm<Relaxed>>("relaxed"),
            #[cfg(all(target_feature = "simd128", any(test, not(target_feature = "relaxed-simd"))))]
            Self::Simd128 => Facts::of::<Wasm<Simd128>>("simd128"),
            #[cfg(target_arch = "aarch64")]
            Self::Neon => Facts::of::<Neon>("neon"),
            #[cfg(any(test, not(target_feature = "simd128")))]
            Self::Portable => Facts::of::<Portable>("portable"),
        }
    }

    /// Name as in `OUTRIDER_ISA`.
    pub(crate) const fn name(self) -> &'static str {
        self.facts().name
    }

    /// Mask to xor to four signed bytes when they are packed.
    pub(super) const fn sign_flips(self) -> u32 {
        self.facts().sign_flips
    }

    /// Maximum number of rows that a kernel computes at a time.
    pub(super) const fn rows(self) -> usize {
        self.facts().rows
    }

    /// Form of activations for `format`; `None` if they are not rounded.
    pub(super) fn wanted(self, format: Format) -> Option<Wanted> {
        let Facts { form, small_form, sign_flips, .. } = self.facts();
        Wanted::of(format, form, small_form, sign_flips)
    }

    /// Computes a product with `rows` rows, at most [`rows`](Self::rows).
    ///
    /// # Safety
    /// The processor must support the instruction set; the product's pointers must be valid for its format, inputs and
    /// rows.
    #[allow(unsafe_code, reason = "see above")]
    pub(super) unsafe fn run(self, product: &Product, rows: usize) {
        // SAFETY: promised by the caller.
        unsafe {
            match self {
                #[cfg(target_arch = "x86_64")]
                Self::Avx512 => run_avx512(product, rows),
                #[cfg(target_arch = "x86_64")]
                Self::Avx2 => run_avx2(product, rows),
                #[cfg(all(target_arch = "wasm32", target_feature = "relaxed-simd"))]
                Self::RelaxedDot => run_relaxed_dot(product, rows),
                #[cfg(all(target_arch = "wasm32", target_feature = "relaxed-simd"))]
                Self::Relaxed => run_relaxed(product, rows),
                #[cfg(all(target_feature = "simd128", any(test, not(target_feature = "relaxed-simd"))))]
                Self::Simd128 => run_simd128(product, rows),
                #[cfg(target_arch = "aarch64")]
                Self::Neon => run_neon(product, rows),
                #[cfg(any(test, not(target_feature = "simd128")))]
                Self::Portable => run_portable(product, rows),
            }
        }
    }
}

#[cfg(target_arch = "aarch64")]
use super::neon::Neon;
#[cfg(any(test, not(target_feature = "simd128")))]
use super::portable::Portable;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
use super::wasm::Wasm;
#[cfg(all(target_feature = "simd128", any(test, not(target_feature = "relaxed-simd"))))]
use super::wasm_products::Simd128;
#[cfg(all(target_arch = "wasm32", target_feature = "relaxed-simd"))]
use super::wasm_products::{Relaxed, RelaxedDot, dot_is_one_instruction};
#[cfg(target_arch = "x86_64")]
use super::{avx2::Avx2, avx512::Avx512};

/// Defines a function that is compiled for an instruction set and has a kernel for each number of rows.
macro_rules! runner {
    ($(#[$attribute:meta])* $name:ident, $lanes:ty, [$($rows:literal)*]) => {
        $(#[$attribute])*
        #[allow(unsafe_code, reason = "as `Isa::run`")]
        unsafe fn $name(work: &Product, rows: usize) {
            const { assert!([$($rows),*].len() == <$lanes as Lanes>::ROWS) }
            // SAFETY: promised by the caller; the instruction set is that of the attribute above.
            unsafe {
                match rows {
                    $($rows => product::<$lanes, $rows>(work),)*
                    _ => unreachable!("more rows than a kernel takes"),
                }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
runner!(#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,f16c")] run_avx512, Avx512, [1 2 3 4 5 6 7 8]);
#[cfg(target_arch = "x86_64")]
runner!(#[target_feature(enable = "avx2,f16c")] run_avx2, Avx2, [1 2 3 4]);
#[cfg(all(target_arch = "wasm32", target_feature = "relaxed-simd"))]
runner!(run_relaxed_dot, Wasm<RelaxedDot>, [1 2]);
#[cfg(all(target_arch = "wasm32", target_feature = "relaxed-simd"))]
runner!(run_relaxed, Wasm<Relaxed>, [1 2]);
#[cfg(all(target_feature = "simd128", any(test, not(target_feature = "relaxed-simd"))))]
runner!(run_simd128, Wasm<Simd128>, [1 2]);
#[cfg(target_arch = "aarch64")]
runner!(#[target_feature(enable = "neon,dotprod")] run_neon, Neon, [1 2 3 4]);
#[cfg(any(test, not(target_feature = "simd128")))]
runner!(run_portable, Portable, [1 2 3 4]);
