package carrying

import "github.com/meshtrial/meshtrial/internal/note"

// How two ways compare in the described mesh.
var (
	SaysLess         = note.Define("way_takes_less", "With %s the stated mesh %s than with %s, by %v.")
	SaysUnknown      = note.Define("way_unknown", "Whether the stated mesh %s with %s or with %s is unknown: too few blocks have both.")
	SaysInconclusive = note.Define("way_inconclusive", "Whether the stated mesh %s with %s or with %s is inconclusive: the difference lies between %v.")
	SaysBorder       = note.Define("way_border", "All else as stated, the mesh %s with %s where %s (95%% interval %s to %s), and with %s where %s.")
)

// Where the order of two ways reverses.
var (
	borderLies    = note.Define("border_lies", "%s below %s (%s–%s), %s above")
	borderNone    = note.Define("border_none", "no border: %s from %s to %s")
	borderBetween = note.Define("border_between", "%s up to %s and from %s on, %s in between")
	borderAbove   = note.Define("border_above", "%s up to %s, cannot say above")
	borderBelow   = note.Define("border_below", "%s from %s on, cannot say below")
	borderUnknown = note.Define("border_unknown", "cannot say: the interval of the difference includes zero")
)

// Limitations of the figures.
var (
	NoteMixed     = note.Define("way_mixed", "Where each wins: %s is left out: its valid trials did not all use the same proxies, as where pods shared a node in some trials and not in others, so what one proxy takes is unknown; %v")
	noteWaypoints = note.Define("way_of_waypoint", "Where each wins: %s is left out: one waypoint serves all pods, and the number of pods does not tell what a mesh's waypoints take")

	noteBent         = note.Define("way_bent", "Use with %s does not follow a straight line along the measured numbers of pods: do not rely on its figures.")
	noteAllWaypoint  = note.Define("way_all_through_waypoint", "With %s every request is assumed to pass a waypoint: no cell was measured without one.")
	noteOnlyL4       = note.Define("way_only_l4", "%s of the requests need L7, which %s does not do without waypoints: its figures are those of L4 alone.")
	NoteThrough      = note.Define("way_through_waypoint", "With %s, all figures but the total are of requests that each pass a waypoint; in the total, %s of them do.")
	notePlainText    = note.Define("way_plain_text", "Figures of %s are without mutual TLS (mtls off); ztunnel always encrypts, and its figures include that.")
	noteOthersPods   = note.Define("nodes_work_for_others", "Proxies on nodes work for other pods too: what that took during the trials counts as use without requests.")
	noteBeyondPods   = note.Define("pods_extrapolated", "The stated mesh has %s pods on each node; up to %s were measured, and the line beyond is extrapolated.")
	noteMostPods     = note.Define("borders_up_to_pods", "Borders are sought only up to %s pods on a node, the most measured. What a node's proxy takes for each pod includes knowing of it; in a larger mesh it knows of the pods on all nodes.")
	NoteNoWaypoint   = note.Define("no_waypoint_measured", "%s of the requests need L7, for which an ambient mesh needs a waypoint. The run measured none, so its figures are those of L4 alone.")
	noteNoProxy      = note.Define("no_proxy_stated", "With %s the stated mesh has no %s: what one takes without requests is left out.")
	NoteBeyondRate   = note.Define("rate_extrapolated", "With %s each %s would carry %s requests per second; up to %s were measured, and the line beyond is extrapolated.")
	noteBelowRate    = note.Define("rate_below_measured", "With %s each %s would carry %s requests per second; at least %s were measured, and the line below is extrapolated. It says too much if the first requests of a second take the most.")
	noteIdleLine     = note.Define("idle_extrapolated", "Figures without requests are extrapolated for %s: they are where the line through the two lowest rates ends, and too high if the first requests of a second take the most.")
	NoteAgent        = note.Define("agent_included", agent+"is included in what each node takes with %s.")
	NoteNoAgent      = note.Define("agent_missing", agent+"is needed on each node, but missing from the figures of %s: not every block measured it.")
	NotePrice        = note.Define("price_of_both", "What a month costs is the price of CPU and memory together: %s %s per core-month[ with %s of the cores in use] and %s %s per GB-month, as section money has them.")
	NoteUnpriced     = note.Define("no_price", "The stated mesh has no price, which needs both CPU and memory: %s.")
	NoteOwnErrorRate = note.Define("own_error_rate", "Each sentence that compares two of these ways in %s is at 95%% by itself: where there is no difference, one in twenty claims one.")
)

const agent = "Istio's node agent (istio-cni-node), which brings pods to their proxies, "
