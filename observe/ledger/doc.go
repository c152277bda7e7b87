// Package ledger reconciles what was written about each request at every
// station it passed: the client (the load generator), the client's proxy, the
// server's proxy and the worker. They are joined by the request's id, header
// x-request-id.
//
//	access logs of Envoy -> [ReadEnvoy] -> ProxyEntry  \
//	request log of the generator        -> ClientEntry  -> [Book] -> [Book.Each]    -> Request
//	request logs of workers             -> WorkerEntry /          -> [Book.Account] -> Account
//
// Between two stations stands a balance, request by request: what one sent on
// must have arrived at the next, except for attempts whose own line says how
// they were lost (connection refused, given up by a timeout). What does not
// balance is named with what it lacks. Totals that agree by chance prove
// nothing, so no total is made but from the single requests.
//
// Every failed request is put to a [Hop], by following the lines from the
// client towards the worker as far as they show the failure, and beyond the
// worker into its own calls. Envoy's response flags are explained by [Flags].
//
// A proxy writes one line a request however often it tried. So of the
// attempts before the last only their number is known, and what arrived of
// them at the other side; Envoy 1.40 leaves hosts that refused the connection
// out of %UPSTREAM_HOSTS_ATTEMPTED% too, and names each host once.
//
// Nothing here reads a clock or a file: logs come as io.Reader.
package ledger
