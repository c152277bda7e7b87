// Package routeprobe measures when a gateway begins to serve routes, by sending requests to
// each route from before it is created until it is served.
//
// Requests to a route are sent on a schedule, open loop: each at its own time, regardless of
// the previous one. The resolution of the measurement is the interval between two requests,
// and a gateway that does not answer delays no request. The interval grows to a hundredth of
// the time for which a route has been probed. A response of 200 is good; a gateway without
// the route answers 404.
//
//	Spec -> Start -> Prober -> Seen of each route
package routeprobe
