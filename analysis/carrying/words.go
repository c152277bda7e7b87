package carrying

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/internal/note"
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

// borderPlace formats the position of a border along a quantity.
func borderPlace(b record.SizedBorder, v *float64) string {
	switch {
	case v == nil:
		return "–"
	case b.Along == sizing.AlongL7:
		return words.Percent(*v)
	}
	return words.Figures(*v)
}

// borderWords says where the order of two ways reverses.
func borderWords(b record.SizedBorder) note.Note {
	at := func(v *float64) string { return borderPlace(b, v) }
	switch sizing.Outcome(b.Outcome) {
	case sizing.Lies:
		return borderLies.Of(b.First, at(b.At), at(b.From), at(b.To), b.Last)
	case sizing.None:
		return borderNone.Of(b.First, at(&b.Low), at(&b.High))
	case sizing.Between:
		other := b.Between[0]
		if other == b.First {
			other = b.Between[1]
		}
		return borderBetween.Of(b.First, at(b.From), at(b.To), other)
	case sizing.Beyond:
		if b.Last == "" {
			return borderAbove.Of(b.First, at(b.From))
		}
		return borderBelow.Of(b.Last, at(b.From))
	}
	return borderUnknown.Of()
}

// borderSentence says the same in a sentence, for a border that exists.
func borderSentence(b record.SizedBorder, u Use) note.Note {
	where, above := "each node has fewer than "+borderPlace(b, b.At)+" pods", "it has more"
	switch b.Along {
	case sizing.AlongRate:
		where, above = "each pod sends fewer than "+borderPlace(b, b.At)+" requests per second", "it sends more"
	case sizing.AlongL7:
		where, above = "less than "+borderPlace(b, b.At)+" of the requests need L7", "more do"
	}
	return SaysBorder.Of(u.less(), b.First, where, borderPlace(b, b.From), borderPlace(b, b.To), b.Last, above)
}

// compareWords compares two ways in the described mesh; largest is the largest use of any
// way there.
func compareWords(a, b string, u Use, e stat.Estimate, largest float64) note.Note {
	less := func(one, other string, v, low, high float64) note.Note {
		return SaysLess.Of(one, u.less(), other, words.Interval(v, low, high, largest, u.total))
	}
	switch sizing.Sign(e) {
	case 1:
		return less(b, a, e.Value, e.Low, e.High)
	case -1:
		return less(a, b, -e.Value, -e.High, -e.Low)
	}
	if !e.Defined() {
		return SaysUnknown.Of(u.less(), a, b)
	}
	return SaysInconclusive.Of(u.less(), a, b, words.Between(e.Low, e.High, largest, u.total))
}

// meshWords describes a mesh; waypoints: some of the ways have waypoints.
func meshWords(m sizing.Mesh, waypoints bool) string {
	s := fmt.Sprintf("%s pods on %s nodes, %s requests per second between them, %s of which need L7", words.Grouped(m.Pods), words.Grouped(m.Nodes), words.Grouped(m.RPS), words.Percent(m.L7))
	if waypoints && m.L7 > 0 {
		s += fmt.Sprintf(" and pass one of %s waypoint proxies in an ambient mesh", words.Grouped(m.Waypoints))
	}
	return s
}

func (z *Ways) notes(m sizing.Mesh) (out []note.Note) {
	for _, w := range z.All {
		if w.poor {
			out = append(out, noteBent.Of(w.Name))
		}
		for _, p := range w.Proxies {
			out = append(out, z.placeNotes(w, p, m)...)
		}
		if _, through := w.at(record.PlaceWaypoint); through && w.plain == nil && m.L7 < 1 {
			out = append(out, noteAllWaypoint.Of(w.Name))
		}
		if z.onlyL4(w, m) {
			out = append(out, noteOnlyL4.Of(words.Percent(m.L7), w.Name))
		}
		if w.plain != nil && m.L7 < 1 {
			out = append(out, NoteThrough.Of(w.Name, words.Percent(m.L7)))
		}
	}
	out = append(out, z.restNotes()...)
	out = append(out, z.agentNotes()...)
	if z.has(record.PlaceNode) && z.has(record.PlaceSidecar) {
		for _, w := range z.All {
			if w.PlainText {
				out = append(out, notePlainText.Of(w.Name))
			}
		}
	}
	if z.has(record.PlaceNode) {
		out = append(out, noteOthersPods.Of())
	}
	if z.MostPods > 0 {
		if stated := math.Round(10*m.Pods/m.Nodes) / 10; stated > z.MostPods && z.has(record.PlaceNode) {
			out = append(out, noteBeyondPods.Of(words.Grouped(stated), words.Grouped(z.MostPods)))
		}
		out = append(out, noteMostPods.Of(words.Grouped(z.MostPods)))
	}
	if m.L7 > 0 && z.has(record.PlaceNode) && !z.has(record.PlaceWaypoint) {
		out = append(out, NoteNoWaypoint.Of(words.Percent(m.L7)))
	}
	return out
}

// left names the ways that are left out, and how to make all trials consistent.
func (z *Ways) left(remedy string) (out []note.Note) {
	for _, name := range z.Mixed {
		out = append(out, NoteMixed.Of(name, remedy))
	}
	for _, name := range z.Waypoints {
		out = append(out, noteWaypoints.Of(name))
	}
	return out
}

// has reports whether some way has proxies at a place.
func (z *Ways) has(place record.Place) bool {
	return slices.ContainsFunc(z.All, func(w *Way) bool { _, ok := w.at(place); return ok })
}

var placeWords = map[record.Place]string{record.PlaceSidecar: "sidecar", record.PlaceNode: "node's proxy", record.PlaceWaypoint: "waypoint"}

// placeNotes says where the described mesh demands more of a way's proxies than was
// measured.
func (z *Ways) placeNotes(w *Way, p Proxies, m sizing.Mesh) []note.Note {
	of, share := w.countIn(m, p.Place)
	rps := m.RPS * share
	carries := func(rate float64) float64 { return math.Round(p.Passes * rate / p.Count) }
	switch stated, high, low := math.Round(p.Passes*rps/of), carries(w.Highest), carries(w.Lowest); {
	case of == 0 && rps > 0:
		return []note.Note{noteNoProxy.Of(w.Name, placeWords[p.Place])}
	case w.Highest == 0: // no trial is valid, so there are no figures
		return nil
	case of > 0 && stated > high:
		return []note.Note{NoteBeyondRate.Of(w.Name, placeWords[p.Place], words.Grouped(stated), words.Grouped(high))}
	case of > 0 && rps > 0 && stated < low && !w.rests(p.Place):
		return []note.Note{noteBelowRate.Of(w.Name, placeWords[p.Place], words.Grouped(stated), words.Grouped(low))}
	}
	return nil
}

// rests reports whether the use of a way's proxies at a place without requests was measured.
func (w *Way) rests(place record.Place) bool { return w.pods || w.rested && place == record.PlaceNode }

// restNotes names the proxies whose use without requests was not measured.
func (z *Ways) restNotes() []note.Note {
	var of []string
	for _, place := range Places {
		if slices.ContainsFunc(z.All, func(w *Way) bool { _, has := w.at(place); return has && !w.rests(place) }) {
			of = append(of, "a "+placeWords[place])
		}
	}
	if len(of) == 0 {
		return nil
	}
	return []note.Note{noteIdleLine.Of(words.List(of))}
}

// countIn returns the number of proxies that a mesh has at a place, and the share of its
// requests that pass them on this way.
func (w *Way) countIn(m sizing.Mesh, place record.Place) (of, share float64) {
	switch place {
	case record.PlaceSidecar:
		return m.Pods, 1
	case record.PlaceNode:
		return m.Nodes, 1
	}
	if w.plain == nil { // no other way is known for requests that need no L7
		return m.Waypoints, 1
	}
	return m.Waypoints, m.L7
}

// pairs returns the pairs of ways to compare. Pairs with a way that cannot carry all
// requests of the described mesh come last: it answers only part of the question.
func (z *Ways) pairs(m sizing.Mesh) (out [][2]*Way) {
	for i, a := range z.All {
		for _, b := range z.All[i+1:] {
			if a.plain != b && b.plain != a {
				out = append(out, [2]*Way{a, b})
			}
		}
	}
	last := func(pair [2]*Way) int {
		if z.onlyL4(pair[0], m) || z.onlyL4(pair[1], m) {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(out, func(p, q [2]*Way) int { return cmp.Compare(last(p), last(q)) })
	return out
}

// onlyL4 reports whether requests of the described mesh need L7, which the way does not
// provide, while another way is the same with waypoints, which do.
func (z *Ways) onlyL4(w *Way, m sizing.Mesh) bool {
	return m.L7 > 0 && slices.ContainsFunc(z.All, func(o *Way) bool { return o.plain == w })
}

// called returns a way's name in comparing sentences.
func (z *Ways) called(w *Way, m sizing.Mesh) string {
	if z.onlyL4(w, m) {
		return w.Name + " without waypoints (L4 alone)"
	}
	return w.Name
}
