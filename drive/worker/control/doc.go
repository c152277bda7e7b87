// Package control defines the documents of a worker's control server and a client for
// it. The server is in package worker.
//
//	GET    /v1/counters             Counters: what was served since the start
//	GET    /v1/config               Config: the behaviour in force
//	POST   /v1/config               Config: replaces it; version must be the one in force
//	PATCH  /v1/config               the same with only what changes
//	POST   /v1/changes              Change: checked and kept, not yet in force
//	POST   /v1/changes/{id}/commit  Commit: puts it in force, at an instant
//	DELETE /v1/changes/{id}         forgets it
//	GET    /v1/clock                Clock
//	GET    /healthz                 200 while serving, 503 while draining
//	GET    /readyz                  the same, and 503 if not_ready is set
//
// Many workers change in two phases, see [StageAll]: all of them check and prepare the
// change first, then all put it in force at the same instant.
//
// Errors are JSON, {"error": "...", "hint": "..."}. Unknown fields are errors.
package control
