// A filter that is called for each request and does nothing.

import { CONTINUE } from "./host";

export {
  proxy_abi_version_0_2_1, proxy_on_memory_allocate, proxy_on_context_create, proxy_on_vm_start,
  proxy_on_configure, proxy_on_done, proxy_on_delete,
} from "./host";

export function proxy_on_request_headers(_context: u32, _headers: u32, _end: u32): u32 {
  return CONTINUE;
}
