// Package control is what a worker says and hears on its control server: the
// documents, and a client for them. The server side is package worker.
//
//	GET  /v1/counters  Counters: what was served since the start
//	GET  /v1/config    Config: the behaviour in force
//	POST /v1/config    Config: replaces it; version must be the one in force
//	GET  /v1/clock     Clock
//	GET  /healthz      200 while serving, 503 while draining
//
// Errors are JSON, {"error": "...", "hint": "..."}. Documents are parsed
// strictly: an unknown field is an error.
package control
