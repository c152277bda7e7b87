// A filter that reads the request's :authority and sets a header to it.

import { CONTINUE } from "./host";

export {
  proxy_abi_version_0_2_1, proxy_on_memory_allocate, proxy_on_context_create, proxy_on_vm_start,
  proxy_on_configure, proxy_on_done, proxy_on_delete,
} from "./host";

// The host's functions take a header map, a key, and where a value is or goes;
// they return a status.
@external("env", "proxy_get_header_map_value")
declare function get(map: u32, key: usize, keySize: usize, value: usize, size: usize): u32;
@external("env", "proxy_replace_header_map_value")
declare function replace(map: u32, key: usize, keySize: usize, value: usize, size: usize): u32;

const REQUEST_HEADERS: u32 = 0;
const OK: u32 = 0;

// ":authority" and "x-meshtrial-wasm".
const read = memory.data<u8>([0x3a, 0x61, 0x75, 0x74, 0x68, 0x6f, 0x72, 0x69, 0x74, 0x79]);
const write = memory.data<u8>([0x78, 0x2d, 0x6d, 0x65, 0x73, 0x68, 0x74, 0x72, 0x69, 0x61, 0x6c, 0x2d, 0x77, 0x61, 0x73, 0x6d]);
// Where the host says where the value is, and its size.
const answer = memory.data(8, 4);

export function proxy_on_request_headers(_context: u32, _headers: u32, _end: u32): u32 {
  if (get(REQUEST_HEADERS, read, 10, answer, answer + 4) == OK) {
    replace(REQUEST_HEADERS, write, 16, load<u32>(answer), load<u32>(answer, 4));
  }
  return CONTINUE;
}
