// Package control drives a load generator remotely: [Server] runs one [load.Spec]
// at a time on request, and [Client] is its client. The protocol is JSON over HTTP,
// on a loopback address inside a pod that the caller reaches by port-forward:
//
//	POST /v1/start               load.Spec              -> Started
//	GET  /v1/intervals?run=&from=                       -> Status
//	POST /v1/stop?run=                                  -> Status; without a run, of any
//	POST /v1/stop-after?run=     StopAfter              -> Status
//	POST /v1/runs/{run}/rate     Rate                   -> load.RateChange
//	GET  /v1/runs/{run}/progress                        -> load.Progress
//	GET  /v1/runs/{run}/result?wait_s=                  -> load.Result, interval by interval: see load.Stream
//	GET  /v1/runs/{run}/requests                        -> request log, lines of JSON, packed by gzip if asked
//	GET  /v1/clock                                      -> Clock
//	GET  /v1/version                                    -> Version
//
// A run's result is kept until the next run starts. Errors have a status of
// 400 (bad input), 404 (no such run), 409 (another run is in progress, or the
// time of a change has passed), 425 (no result yet), 503 ([load.Retryable]) or 500, and
// a [jsonhttp.Problem] as body.
package control
