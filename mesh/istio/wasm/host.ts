// What both filters share: the part of the proxy-wasm ABI that every filter
// must have. See github.com/proxy-wasm/spec, abi-versions/v0.2.1.
// Module memory is managed by nobody: the host's values go to one place, which
// is free again when the filter returns.

const ROOM: usize = 8192;
const room = memory.data(8192);

// proxy_abi_version_0_2_1 tells the host which ABI this is.
export function proxy_abi_version_0_2_1(): void {}

// proxy_on_memory_allocate gives the host a place for a value, 0 for none.
export function proxy_on_memory_allocate(size: usize): usize {
  return size <= ROOM ? room : 0;
}

export function proxy_on_context_create(_context: u32, _parent: u32): void {}

export function proxy_on_vm_start(_context: u32, _size: u32): bool {
  return true;
}

export function proxy_on_configure(_context: u32, _size: u32): bool {
  return true;
}

export function proxy_on_done(_context: u32): bool {
  return true;
}

export function proxy_on_delete(_context: u32): void {}

// Go on with the next filter.
export const CONTINUE: u32 = 0;
