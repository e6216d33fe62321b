//! Subgroups: threads of a workgroup that sum their values without shared memory. Most GPUs have them, but not every
//! browser exposes them.

use wgpu::{Adapter, Device, DeviceDescriptor, Features, Queue, RequestDeviceError};

/// Requests a device, with subgroups if the adapter has them.
pub(crate) fn request_device(
    adapter: &Adapter,
    descriptor: &DeviceDescriptor<'_>,
) -> impl Future<Output = Result<(Device, Queue), RequestDeviceError>> + use<> {
    #[cfg(target_arch = "wasm32")]
    let _asking = browser::Asking::new();
    let required_features = descriptor.required_features | (adapter.features() & Features::SUBGROUP);
    adapter.request_device(&DeviceDescriptor { required_features, ..descriptor.clone() })
}

/// Returns whether a device has subgroups. Browsers report their size imprecisely at best.
pub(crate) fn has_them(device: &Device) -> bool {
    #[cfg(target_arch = "wasm32")]
    return browser::has_them(device);
    #[cfg(not(target_arch = "wasm32"))]
    device.features().contains(Features::SUBGROUP)
}

/// Workaround until wgpu requests subgroups in browsers (gfx-rs/wgpu#10146).
#[cfg(target_arch = "wasm32")]
mod browser {
    use js_sys::{Array, Function, Object, Proxy, Reflect};
    use wasm_bindgen::{JsCast, JsValue, closure::Closure};
    use wgpu::Device;

    const FEATURE: &str = "subgroups";
    const METHOD: &str = "requestDevice";

    /// Guard during which `GPUAdapter.requestDevice` also requests subgroups, if the adapter has them.
    pub(super) struct Asking {
        prototype: Object,
        original: Function,
        _apply: Closure<Apply>,
    }

    type Apply = dyn Fn(Function, JsValue, Array) -> Result<JsValue, JsValue>;

    impl Asking {
        pub(super) fn new() -> Result<Self, JsValue> {
            let class = Reflect::get(&js_sys::global(), &"GPUAdapter".into())?;
            let prototype: Object = Reflect::get(&class, &"prototype".into())?.dyn_into()?;
            let original: Function = Reflect::get(&prototype, &METHOD.into())?.dyn_into()?;
            let apply: Closure<Apply> = Closure::new(|method: Function, adapter: JsValue, arguments: Array| {
                let required = Reflect::get(&arguments.get(0), &"requiredFeatures".into());
                if let Some(required) = required.ok().and_then(|required| required.dyn_into::<Array>().ok())
                    && has_feature(&adapter)
                {
                    required.push(&FEATURE.into());
                }
                Reflect::apply(&method, &adapter, &arguments)
            });
            let handler = Object::new();
            Reflect::set(&handler, &"apply".into(), apply.as_ref())?;
            Reflect::set(&prototype, &METHOD.into(), &Proxy::new(&original, &handler))?;
            Ok(Self { prototype, original, _apply: apply })
        }
    }

    impl Drop for Asking {
        fn drop(&mut self) {
            // Setting a property that was set before cannot fail.
            let _ = Reflect::set(&self.prototype, &METHOD.into(), &self.original);
        }
    }

    /// Returns whether an adapter or a device has subgroups.
    fn has_feature(of: &JsValue) -> bool {
        let has = || -> Result<JsValue, JsValue> {
            let features = Reflect::get(of, &"features".into())?;
            let has: Function = Reflect::get(&features, &"has".into())?.dyn_into()?;
            has.call1(&features, &FEATURE.into())
        };
        has().is_ok_and(|has| has.is_truthy())
    }

    pub(super) fn has_them(device: &Device) -> bool {
        device.as_webgpu().is_some_and(|device| has_feature(device))
    }
}
