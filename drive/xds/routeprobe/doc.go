// Package routeprobe asks a gateway for routes, from before each is due until it is served.
//
// Requests to a route leave on a schedule, open loop: each at its own time, whatever
// became of the one before. So it is known to within the time between two of them when
// the gateway began to serve the route, and a gateway that does not answer delays no
// request. The longer a route is not served, the further apart they are: by a hundredth of
// that time. The answer 200 is a good one; a gateway without the route answers 404.
//
//	Spec -> Start -> Prober -> Seen of each route
package routeprobe
