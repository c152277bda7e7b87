// Package push simulates how istiod propagates changes of configuration to proxies: a
// change is debounced, a push context is made, every connected proxy is queued once,
// turns are taken under the push throttle, resources are generated on shared CPUs and
// sent, and the proxy applies and acknowledges them. It is a discrete-event simulation
// with given costs, and pure: the same [Input] gives the same [Result].
//
//	changes -> debounce -> push context -> queue -> turn (CPU, then sending) -> proxy
//
// It follows istiod's source (pilot/pkg/xds of Istio 1.31: discovery.go, pushqueue.go,
// delta.go, eds.go, and features/tuning.go):
//
//   - Debouncing waits until there was no change for DebounceAfter, or DebounceMax has
//     passed since the first change. Both are checked when a timer expires, and a push
//     begins only when the previous push context is complete ([Debouncer]).
//   - Every push queues every connected proxy. A proxy that is already queued is not
//     queued twice, and one whose turn is running is queued again behind the others;
//     what it needs is merged. So the queue is never longer than the number of
//     proxies, and delayed changes are sent once.
//   - A turn holds a slot of PILOT_PUSH_THROTTLE.
//   - Endpoints and clusters are sent as differences, but a push sends all endpoints
//     if it merges a change that eds cannot send as a difference ([Kind.Spoils], from
//     canSendPartialFullPushes in eds.go).
//   - The results of a push are cached if it began after the cache was last cleared,
//     and a merged push keeps the beginning of its first, so overlapping pushes do not
//     fill the cache (typed_xds_cache.go and PushRequest.CopyMerge in
//     pilot/pkg/model).
//   - A push of endpoints only is not debounced if PILOT_ENABLE_EDS_DEBOUNCE is off.
//   - New streams wait for PILOT_MAX_REQUESTS_PER_SECOND, a second at most, and are
//     then refused; clients retry after a random time that doubles.
//
// CPUs are shared evenly among whatever runs (processor sharing). A job has a path
// that a second CPU cannot shorten, and parallel work (garbage collection, transport,
// acknowledgements), in total [Costs.Parallel] CPU seconds for each second of that
// path.
//
// Proxies of a [Class] are identical. Groups of up to an eighth of the number of slots
// move as one, so 100,000 proxies take seconds; [Input.Batch] 1 moves each
// individually. Replicas with the same share of the proxies are identical too, and are
// simulated once.
//
// Times are in seconds, sizes in bytes, CPU time in CPU seconds.
package push
