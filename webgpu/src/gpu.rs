//! An adapter with its buffers, and how what it has computed comes back.

use std::{
    future::poll_fn,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Poll, Waker},
};

use futures_channel::oneshot;
use wgpu::{
    Buffer, BufferDescriptor, BufferUsages, Device, DeviceDescriptor, Error, ErrorFilter, Features, Instance,
    InstanceDescriptor, Limits, MapMode, PowerPreference, Queue, RequestAdapterOptions,
};

use crate::{error::GpuError, subgroups};

/// Bytes behind a matrix that kernels may read: the word after its last.
const SLACK_BYTES: u64 = 4;

/// A GPU that is open.
#[derive(Debug)]
pub struct Gpu {
    device: Device,
    queue: Queue,
    name: String,
    has_subgroups: bool,
    trouble: Trouble,
}

impl Drop for Gpu {
    /// A browser would give its buffers back when it collects garbage.
    fn drop(&mut self) {
        self.device.destroy();
    }
}

/// What went wrong outside any call: the first error, or that the device is gone.
#[derive(Debug, Clone, Default)]
struct Trouble(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    kind: Option<Kind>,
    /// Who waits for an answer, which a device that is gone may never give.
    waiting: Option<Waker>,
}

#[derive(Debug, Clone)]
enum Kind {
    Lost(String),
    Refused(String),
}

impl Trouble {
    fn set(&self, kind: Kind) {
        let mut state = self.state();
        // That it is gone says more than what failed then.
        if state.kind.is_none() || matches!(kind, Kind::Lost(_)) {
            state.kind = Some(kind);
        }
        let waiting = state.waiting.take();
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What `other` gives; `None` if the device is gone before.
    async fn unless_lost<R>(&self, other: impl Future<Output = R>) -> Option<R> {
        let mut other = pin!(other);
        poll_fn(|context| {
            if let Poll::Ready(result) = other.as_mut().poll(context) {
                return Poll::Ready(Some(result));
            }
            let mut state = self.state();
            if matches!(state.kind, Some(Kind::Lost(_))) {
                return Poll::Ready(None);
            }
            state.waiting = Some(context.waker().clone());
            Poll::Pending
        })
        .await
    }

    fn check(&self) -> Result<(), GpuError> {
        match self.state().kind.clone() {
            None => Ok(()),
            Some(Kind::Lost(why)) => Err(GpuError::Lost(why)),
            Some(Kind::Refused(why)) => Err(GpuError::Refused(why)),
        }
    }
}

impl Gpu {
    /// Opens the GPU that the browser, or the system, takes for work that lasts.
    ///
    /// # Errors
    /// [`GpuError::Unavailable`] if there is none.
    pub async fn open() -> Result<Self, GpuError> {
        Self::open_with(true).await
    }

    /// The same with kernels for GPUs that have no subgroups: for tests.
    ///
    /// # Errors
    /// Those of [`open`](Self::open).
    pub async fn open_without_subgroups() -> Result<Self, GpuError> {
        Self::open_with(false).await
    }

    async fn open_with(subgroups_wanted: bool) -> Result<Self, GpuError> {
        let instance = Instance::new(InstanceDescriptor::new_without_display_handle());
        let wanted = RequestAdapterOptions { power_preference: PowerPreference::HighPerformance, ..Default::default() };
        let unavailable = |error: String| GpuError::Unavailable(error);
        let adapter = instance.request_adapter(&wanted).await.map_err(|error| unavailable(error.to_string()))?;
        // A model's tables are larger than what every adapter promises.
        let Limits { max_storage_buffer_binding_size, max_buffer_size, .. } = adapter.limits();
        let descriptor = DeviceDescriptor {
            label: Some("outrider"),
            required_features: Features::empty(),
            required_limits: Limits { max_storage_buffer_binding_size, max_buffer_size, ..Limits::default() },
            ..Default::default()
        };
        let opened = match subgroups_wanted {
            true => subgroups::request_device(&adapter, &descriptor).await,
            false => adapter.request_device(&descriptor).await,
        };
        let (device, queue) = opened.map_err(|error| unavailable(error.to_string()))?;
        let has_subgroups = subgroups::has_them(&device);
        let trouble = Trouble::default();
        let (lost, refused) = (trouble.clone(), trouble.clone());
        device.set_device_lost_callback(move |reason, message| lost.set(Kind::Lost(format!("{reason:?}: {message}"))));
        device.on_uncaptured_error(Arc::new(move |error: Error| refused.set(Kind::Refused(error.to_string()))));
        let info = adapter.get_info();
        let name = if info.name.is_empty() { info.driver.clone() } else { info.name.clone() };
        Ok(Self { device, queue, name, has_subgroups, trouble })
    }

    /// What it calls itself; browsers tell little.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether kernels add up in subgroups there.
    #[must_use]
    pub fn has_subgroups(&self) -> bool {
        self.has_subgroups
    }

    /// Takes the device away, as a browser may do: for tests.
    pub fn lose(&self) {
        self.device.destroy();
    }

    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    pub(crate) fn queue(&self) -> &Queue {
        &self.queue
    }

    /// An error if anything has failed so far.
    pub(crate) fn check(&self) -> Result<(), GpuError> {
        self.trouble.check()
    }

    /// A buffer that kernels read and write, of so many numbers of four bytes.
    pub(crate) fn numbers(&self, what: &'static str, count: usize) -> Result<Buffer, GpuError> {
        let usage = BufferUsages::STORAGE | BufferUsages::COPY_DST | BufferUsages::COPY_SRC;
        self.buffer(what, 4 * count as u64, usage)
    }

    /// A buffer with these bytes that kernels read.
    pub(crate) fn holding(&self, what: &'static str, bytes: &[u8]) -> Result<Buffer, GpuError> {
        let buffer = self.room_for(what, bytes.len())?;
        self.write(&buffer, 0, bytes);
        Ok(buffer)
    }

    /// A buffer for so many bytes that kernels read.
    pub(crate) fn room_for(&self, what: &'static str, bytes: usize) -> Result<Buffer, GpuError> {
        let size = (bytes as u64).next_multiple_of(4) + SLACK_BYTES;
        self.buffer(what, size, BufferUsages::STORAGE | BufferUsages::COPY_DST)
    }

    /// Writes bytes to a place in it, a multiple of four.
    pub(crate) fn write(&self, buffer: &Buffer, place: u64, bytes: &[u8]) {
        // What is written has whole words.
        let (whole, rest) = bytes.split_at(bytes.len() / 4 * 4);
        self.queue.write_buffer(buffer, place, whole);
        if !rest.is_empty() {
            let mut last = [0; 4];
            last[..rest.len()].copy_from_slice(rest);
            self.queue.write_buffer(buffer, place + whole.len() as u64, &last);
        }
    }

    /// What a buffer for [`room_for`](Self::room_for) holds at most.
    pub(crate) fn most_bytes(&self) -> u64 {
        // Kernels count bytes in 32 bits.
        self.largest_buffer().min(u32::MAX.into()) - 2 * SLACK_BYTES
    }

    fn largest_buffer(&self) -> u64 {
        let Limits { max_storage_buffer_binding_size, max_buffer_size, .. } = self.device.limits();
        max_storage_buffer_binding_size.min(max_buffer_size)
    }

    /// A buffer with these words that all threads of a kernel read alike.
    pub(crate) fn constants(&self, words: &[u32]) -> Buffer {
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.resize(bytes.len().next_multiple_of(16), 0);
        let usage = BufferUsages::UNIFORM | BufferUsages::COPY_DST;
        let size = bytes.len() as u64;
        let descriptor = BufferDescriptor { label: None, size, usage, mapped_at_creation: false };
        let buffer = self.device.create_buffer(&descriptor);
        self.queue.write_buffer(&buffer, 0, &bytes);
        buffer
    }

    /// A buffer that comes back.
    pub(crate) fn returning(&self, bytes: u64) -> Buffer {
        let usage = BufferUsages::MAP_READ | BufferUsages::COPY_DST;
        self.device.create_buffer(&BufferDescriptor { label: None, size: bytes, usage, mapped_at_creation: false })
    }

    fn buffer(&self, what: &'static str, size: u64, usage: BufferUsages) -> Result<Buffer, GpuError> {
        let most = self.largest_buffer();
        if size > most {
            return Err(GpuError::TooLarge { what, needed: size, most });
        }
        Ok(self.device.create_buffer(&BufferDescriptor { label: Some(what), size, usage, mapped_at_creation: false }))
    }

    /// Does what fills memory, and says whether there was enough.
    pub(crate) async fn within_memory<T>(&self, work: impl FnOnce() -> Result<T, GpuError>) -> Result<T, GpuError> {
        let scope = self.device.push_error_scope(ErrorFilter::OutOfMemory);
        let done = work();
        match scope.pop().await {
            Some(error) => Err(GpuError::OutOfMemory(error.to_string())),
            None => done,
        }
    }

    /// The first `bytes` of a [returning](Self::returning) buffer, once what was submitted is done.
    pub(crate) async fn read(&self, buffer: &Buffer, bytes: u64) -> Result<Vec<u8>, GpuError> {
        let (done, when_done) = oneshot::channel();
        buffer.slice(..bytes).map_async(MapMode::Read, move |result| {
            let _ = done.send(result);
        });
        // A browser lets time pass by itself.
        #[cfg(not(target_arch = "wasm32"))]
        self.device.poll(wgpu::PollType::wait_indefinitely()).map_err(|error| GpuError::Lost(error.to_string()))?;
        let mapped = self.trouble.unless_lost(when_done).await.and_then(Result::ok).and_then(Result::ok);
        self.check()?;
        if mapped.is_none() {
            return Err(GpuError::Lost("what it has computed cannot be read".to_owned()));
        }
        let read = buffer.slice(..bytes).get_mapped_range().map(|view| view.to_vec());
        buffer.unmap();
        read.map_err(|error| GpuError::Refused(error.to_string()))
    }
}
