// Package worker is the workload under test: a server whose answers have a
// set size and a set service-time distribution, over HTTP/1.1, HTTP/2
// without TLS, gRPC, plain TCP and HTTPS, and which counts what it served.
//
// A [Worker] goes through Config -> build -> serve -> drain: [New] checks the
// options and opens every listener, [Worker.Serve] serves until its context
// ends, then refuses new work, lets what is under way finish, and closes.
//
// Each protocol's server reads a request into an [Exchange], passes it
// through one chain of [Link]s (count, hold for the service time, respond),
// and writes the answer. What a worker does to requests is in that chain and
// nowhere else, so a further behaviour is a further link. The control server
// replaces the chain as a whole between requests.
//
// Service times are waited for with package wake, precise to some tens of
// microseconds on an idle machine, without spinning: a worker that burned
// CPU to be on time would disturb the trial it serves. The counters say how
// long requests were to be held and how long they were.
package worker
