// Package worker implements the workload under test: a server with a configured response
// size and service-time distribution, over HTTP/1.1, HTTP/2 without TLS, gRPC, plain TCP,
// HTTPS, WebSocket and gRPC streams. It counts what it serves.
//
// A [Worker] goes through Config -> build -> serve -> drain: [New] checks the options and
// opens every listener, [Worker.Serve] serves until its context ends, then refuses new
// requests, lets those in flight finish, and closes.
//
// Each protocol's server reads a request into an [Exchange], passes it through one chain
// of [Link]s (count, hold for the service time, respond), and writes the answer. That
// chain contains everything that a worker does to requests. The control server replaces
// it as a whole.
//
// Package wake times service times, precise to some tens of microseconds on an idle
// machine, without spinning: burning CPU to be on time would disturb the trial. The
// counters have intended and actual service times.
package worker
