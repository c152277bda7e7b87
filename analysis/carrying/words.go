package carrying

import (
	"fmt"
	"math"
	"slices"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat"
	"github.com/meshtrial/meshtrial/stat/sizing"
	"github.com/meshtrial/meshtrial/study"
)

// SidecarsOf names the sidecars of a mesh as a way of carrying requests.
func SidecarsOf(mesh string) string {
	if mesh == study.MeshLinkerd {
		return "Linkerd's sidecars"
	}
	return "sidecars"
}

// borderPlace writes where along something a border is.
func borderPlace(b record.SizedBorder, v *float64) string {
	switch {
	case v == nil:
		return "–"
	case b.Along == sizing.AlongL7:
		return words.Percent(*v)
	}
	return words.Figures(*v)
}

// borderWords say where two ways change places.
func borderWords(b record.SizedBorder) string {
	at := func(v *float64) string { return borderPlace(b, v) }
	switch sizing.Outcome(b.Outcome) {
	case sizing.Lies:
		return fmt.Sprintf("%s below %s (%s–%s), %s above", b.First, at(b.At), at(b.From), at(b.To), b.Last)
	case sizing.None:
		return fmt.Sprintf("no border: %s from %s to %s", b.First, at(&b.Low), at(&b.High))
	case sizing.Between:
		other := b.Between[0]
		if other == b.First {
			other = b.Between[1]
		}
		return fmt.Sprintf("%s up to %s and from %s on, %s in between", b.First, at(b.From), at(b.To), other)
	case sizing.Beyond:
		if b.Last == "" {
			return fmt.Sprintf("%s up to %s, cannot say above", b.First, at(b.From))
		}
		return fmt.Sprintf("%s from %s on, cannot say below", b.Last, at(b.From))
	}
	return "cannot say: the interval of the difference includes zero"
}

// borderSentence says the same of a border that lies somewhere; "" of others.
func borderSentence(b record.SizedBorder, u Use) string {
	if sizing.Outcome(b.Outcome) != sizing.Lies {
		return ""
	}
	where, above := "each node has fewer than "+borderPlace(b, b.At)+" pods", "it has more"
	switch b.Along {
	case sizing.AlongRate:
		where, above = "each pod sends fewer than "+borderPlace(b, b.At)+" requests per second", "it sends more"
	case sizing.AlongL7:
		where, above = "less than "+borderPlace(b, b.At)+" of the requests need L7", "more do"
	}
	return fmt.Sprintf("All else as stated, the mesh %s with %s where %s (95%% interval %s to %s), and with %s where %s.",
		u.less(), b.First, where, borderPlace(b, b.From), borderPlace(b, b.To), b.Last, above)
}

// compareWords compares two ways in the stated mesh; largest is what the way that takes
// most takes there.
func compareWords(a, b string, u Use, e stat.Estimate, largest float64) string {
	less := func(one, other string, v, low, high float64) string {
		return fmt.Sprintf("With %s the stated mesh %s than with %s, by %s.", one, u.less(), other, words.Interval(v, low, high, largest, u.total))
	}
	switch sizing.Sign(e) {
	case 1:
		return less(b, a, e.Value, e.Low, e.High)
	case -1:
		return less(a, b, -e.Value, -e.High, -e.Low)
	}
	if !e.Defined() {
		return fmt.Sprintf("Whether the stated mesh %s with %s or with %s is unknown: too few blocks have both.", u.less(), a, b)
	}
	return fmt.Sprintf("Whether the stated mesh %s with %s or with %s is inconclusive: the difference lies between %s.", u.less(), a, b, words.Between(e.Low, e.High, largest, u.total))
}

// meshWords state a mesh; waypoints: some of the ways have any.
func meshWords(m sizing.Mesh, waypoints bool) string {
	s := fmt.Sprintf("%s pods on %s nodes, %s requests per second between them, %s of which need L7", words.Grouped(m.Pods), words.Grouped(m.Nodes), words.Grouped(m.RPS), words.Percent(m.L7))
	if waypoints && m.L7 > 0 {
		s += fmt.Sprintf(" and pass one of %s waypoint proxies in an ambient mesh", words.Grouped(m.Waypoints))
	}
	return s
}

// notes say what limits the figures.
func (z *Ways) notes(m sizing.Mesh) (out []string) {
	for _, w := range z.All {
		if w.poor {
			out = append(out, fmt.Sprintf("Use with %s does not follow a straight line along the measured numbers of pods: do not rely on its figures.", w.Name))
		}
		for _, p := range w.Proxies {
			out = append(out, z.placeNotes(w, p, m)...)
		}
		if _, through := w.at(record.PlaceWaypoint); through && w.plain == nil && m.L7 < 1 {
			out = append(out, fmt.Sprintf("With %s every request is assumed to pass a waypoint: no cell was measured without one.", w.Name))
		}
		if z.onlyL4(w, m) {
			out = append(out, fmt.Sprintf("%s of the requests need L7, which %s does not do without waypoints: its figures are those of L4 alone.", words.Percent(m.L7), w.Name))
		}
		if w.plain != nil && m.L7 < 1 {
			out = append(out, fmt.Sprintf("With %s, all figures but the total are of requests that each pass a waypoint; in the total, %s of them do.", w.Name, words.Percent(m.L7)))
		}
	}
	out = append(out, z.restNotes()...)
	out = append(out, z.agentNotes()...)
	if z.has(record.PlaceNode) && z.has(record.PlaceSidecar) {
		for _, w := range z.All {
			if w.PlainText {
				out = append(out, fmt.Sprintf("Figures of %s are without mutual TLS (mtls off); ztunnel always encrypts, and its figures include that.", w.Name))
			}
		}
		out = append(out, "Whatever sidecars report, ztunnel counts connections and bytes, and logs each connection that ends; its figures include that.")
	}
	if z.has(record.PlaceNode) {
		out = append(out, "Proxies on nodes work for other pods too: what that took during the trials counts as use without requests.")
	}
	if z.MostPods > 0 {
		if stated := math.Round(10*m.Pods/m.Nodes) / 10; stated > z.MostPods && z.has(record.PlaceNode) {
			out = append(out, fmt.Sprintf("The stated mesh has %s pods on each node; up to %s were measured, and the line beyond is extrapolated.", words.Grouped(stated), words.Grouped(z.MostPods)))
		}
		out = append(out, fmt.Sprintf("Borders are sought only up to %s pods on a node, the most measured. What a node's proxy takes for each pod includes knowing of it; in a larger mesh it knows of the pods on all nodes.", words.Grouped(z.MostPods)))
	}
	if m.L7 > 0 && z.has(record.PlaceNode) && !z.has(record.PlaceWaypoint) {
		out = append(out, fmt.Sprintf("%s of the requests need L7, for which an ambient mesh needs a waypoint. The run measured none, so its figures are those of L4 alone.", words.Percent(m.L7)))
	}
	return out
}

// mixedWords say which ways are left out, and how all trials would be alike.
func (z *Ways) mixedWords(remedy string) (out []string) {
	for _, name := range z.Mixed {
		out = append(out, fmt.Sprintf("Where each wins: %s is left out: its valid trials did not all use the same proxies, as where pods shared a node in some trials and not in others, so what one proxy takes is unknown; %s", name, remedy))
	}
	return out
}

// waypointWords say which ways have no place among numbers of pods.
func (z *Ways) waypointWords() (out []string) {
	for _, name := range z.Waypoints {
		out = append(out, fmt.Sprintf("Where each wins: %s is left out: one waypoint serves all pods, and the number of pods does not tell what a mesh's waypoints take", name))
	}
	return out
}

// has says that some way has proxies at a place.
func (z *Ways) has(place record.Place) bool {
	return slices.ContainsFunc(z.All, func(w *Way) bool { _, ok := w.at(place); return ok })
}

// placeWords name a proxy by its place.
var placeWords = map[record.Place]string{record.PlaceSidecar: "sidecar", record.PlaceNode: "node's proxy", record.PlaceWaypoint: "waypoint"}

// placeNotes say what the stated mesh asks of a way's proxies that was not measured.
func (z *Ways) placeNotes(w *Way, p Proxies, m sizing.Mesh) []string {
	of, share := w.countIn(m, p.Place)
	rps := m.RPS * share
	carries := func(rate float64) float64 { return math.Round(p.Passes * rate / p.Count) }
	switch stated, high, low := math.Round(p.Passes*rps/of), carries(w.Highest), carries(w.Lowest); {
	case of == 0 && rps > 0:
		return []string{fmt.Sprintf("With %s the stated mesh has no %s: what one takes without requests is left out.", w.Name, placeWords[p.Place])}
	case w.Highest == 0: // no trial is valid, nor any figure
		return nil
	case of > 0 && stated > high:
		return []string{fmt.Sprintf("With %s each %s would carry %s requests per second; up to %s were measured, and the line beyond is extrapolated.",
			w.Name, placeWords[p.Place], words.Grouped(stated), words.Grouped(high))}
	case of > 0 && rps > 0 && stated < low && !w.rests(p.Place):
		return []string{fmt.Sprintf("With %s each %s would carry %s requests per second; at least %s were measured, and the line below is extrapolated. It says too much if the first requests of a second take the most.",
			w.Name, placeWords[p.Place], words.Grouped(stated), words.Grouped(low))}
	}
	return nil
}

// rests says that what a way's proxies at a place take without requests was measured.
func (w *Way) rests(place record.Place) bool { return w.pods || w.rested && place == record.PlaceNode }

// restNotes say of which proxies what they take without requests was not measured.
func (z *Ways) restNotes() []string {
	var of []string
	for _, place := range Places {
		if slices.ContainsFunc(z.All, func(w *Way) bool { _, has := w.at(place); return has && !w.rests(place) }) {
			of = append(of, "a "+placeWords[place])
		}
	}
	if len(of) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("Figures without requests are extrapolated for %s: they are where the line through the two lowest rates ends, and too high if the first requests of a second take the most.", words.List(of))}
}

// countIn is how many proxies a mesh has at a place, and the share of its requests that
// pass them if they go this way.
func (w *Way) countIn(m sizing.Mesh, place record.Place) (of, share float64) {
	switch place {
	case record.PlaceSidecar:
		return m.Pods, 1
	case record.PlaceNode:
		return m.Nodes, 1
	}
	if w.plain == nil { // there is no other way for those that need no L7
		return m.Waypoints, 1
	}
	return m.Waypoints, m.L7
}
