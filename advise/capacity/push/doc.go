// Package push simulates how istiod brings changes of configuration to
// proxies: a change is debounced, a push context is made, every connected proxy
// is queued once, turns are taken under the push throttle, resources are
// generated on shared CPUs and sent, and the proxy applies and acknowledges
// them. It is a discrete-event simulation on given costs, and pure: the same
// [Input] gives the same [Result].
//
//	changes -> debounce -> push context -> queue -> turn (CPU, then sending) -> proxy
//
// What it takes from istiod's source (pilot/pkg/xds of Istio 1.31: discovery.go,
// pushqueue.go, delta.go, eds.go, and features/tuning.go):
//
//   - Debouncing waits until nothing came for DebounceAfter, or DebounceMax has
//     passed since the first change; both are looked at when a timer ends, and
//     a push begins only when the push context before it is done ([Debouncer]).
//   - Every push queues every connected proxy. One that is queued already is not
//     queued twice, and one whose turn it is is queued again behind the others;
//     what it needs is merged. So the queue is never longer than the proxies
//     are many, and what is late is sent once.
//   - A turn holds a slot of PILOT_PUSH_THROTTLE.
//   - Endpoints and clusters go by difference; but all endpoints go in a push that
//     merges a change which eds cannot tell by difference ([Kind.Spoils], from
//     canSendPartialFullPushes in eds.go).
//   - What a push makes is cached if it began after the cache was last cleared, and
//     a push that merges keeps the beginning of the first, so that pushes that overlap
//     fill no cache (typed_xds_cache.go and PushRequest.CopyMerge in pilot/pkg/model).
//   - A push of nothing but endpoints is not debounced where
//     PILOT_ENABLE_EDS_DEBOUNCE is off.
//   - New streams wait for PILOT_MAX_REQUESTS_PER_SECOND, a second at most, and
//     are then refused; clients come back after a random time that doubles.
//
// CPUs are shared evenly among whatever runs (processor sharing). A job has a
// path that no second CPU shortens, and work beside it (garbage collection,
// transport, acknowledgements), [Costs.Parallel] CPU seconds in all for each
// second of that path.
//
// Proxies of a [Class] are alike. Up to an eighth of the slots' number of them
// move as one, so that 100,000 proxies take seconds; [Input.Batch] 1 moves each
// by itself. Replicas with the same share of the proxies are alike too, and
// are simulated once.
//
// Times are seconds, sizes bytes, CPU time CPU seconds.
package push
