// Package control drives a fleet of simulated sidecars remotely: [Server] runs one
// [xds.Spec] at a time on request, and [Client] is its client. The protocol is
// JSON over HTTP, on a loopback address inside a pod that the caller reaches by
// port-forward:
//
//	POST /v1/start       xds.Spec                -> Started
//	GET  /v1/status                              -> xds.Status
//	POST /v1/markers     Announcement            -> Announced
//	GET  /v1/sightings?from=                     -> their number, then an xds.MarkerSightings each
//	GET  /v1/account                             -> xds.Account
//	GET  /v1/holdings                            -> the bytes that each proxy holds
//	GET  /v1/configuration?proxy=&proxies=       -> what one proxy holds, see Client.Configuration
//	POST /v1/outage      OutageRequest           -> xds.Outage
//	GET  /v1/outage                              -> xds.Outage
//	POST /v1/join        xds.Spec of one proxy   -> record.Join
//	POST /v1/routes      routeprobe.Spec         -> a routeprobe.Seen for each route
//	GET  /v1/routes                              -> the same
//	POST /v1/routes/stop                         -> the same
//	GET  /v1/clock                               -> Clock
//	GET  /v1/version                             -> Version
//	POST /v1/stop                                -> xds.Account
//
// A fleet runs until it is stopped or the server ends, and so do the requests for
// routes through a gateway, which do not need a fleet. Errors have a status of 400
// (bad input), 404 (no fleet runs), 409 (another runs) or 500, and a
// [jsonhttp.Problem] as body.
package control
