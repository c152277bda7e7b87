// Package control defines the documents of a worker's control server and a client for
// it. The server is in package worker.
//
//	GET  /v1/counters Counters: what was served since the start
//	GET  /v1/config   Config: the behaviour in force
//	POST /v1/config   Config: replaces it; version must be the one in force
//	GET  /v1/clock    Clock
//	GET  /healthz     200 while serving, 503 while draining
//	GET  /readyz      the same, and 503 if not_ready is set
//
// Errors are JSON, {"error": "...", "hint": "..."}. Unknown fields are errors.
package control
