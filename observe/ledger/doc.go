// Package ledger reconciles the logs about each request from every station it passed: the
// client (the load generator), the client's proxy, the server's proxy and the worker. The logs
// are joined by the request's ID, header x-request-id.
//
//	access logs of Envoy -> [ReadEnvoy] -> ProxyEntry  \
//	request log of the generator        -> ClientEntry  -> [Book] -> [Book.Each]    -> Request
//	request logs of workers             -> WorkerEntry /          -> [Book.Account] -> Account
//
// Between two stations there is a balance for each request: what one station sent must have
// arrived at the next, except attempts whose own line says how they were lost (connection
// refused, given up by a timeout). Unbalanced requests are listed with what they lack. Matching
// totals prove nothing, so totals are always derived from individual requests.
//
// Every failed request is attributed to a [Hop] by following the lines from the client towards
// the worker for as long as they show the failure, and beyond the worker into its own calls.
// [Flags] explains Envoy's response flags.
//
// A proxy writes one line per request, regardless of the number of attempts. Of the attempts
// before the last, only their number is known, and which of them arrived at the other side.
// Envoy 1.40 also omits hosts that refused the connection from %UPSTREAM_HOSTS_ATTEMPTED%, and
// lists each host only once.
//
// The package reads no clock and no file: logs are passed as io.Reader.
package ledger
