package trial

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/ledger"
	"github.com/meshtrial/meshtrial/record"
	corev1 "k8s.io/api/core/v1"
)

const (
	// lately is how long before the timeline's end requests are its last.
	lately = 2 * time.Second
	// afterSteps is how long, after the timeline, proxies are waited for that steps took
	// away: one that is away for longer is what the trial shows.
	afterSteps = 10 * time.Second
	// oneSeat is how long one of them is looked for before the last look at the counters.
	oneSeat = time.Second
)

// noteFresh notes proxies that steps had come in the place of others, so that the last look
// counts what they used.
func (t *scenarioTrial) noteFresh(ctx context.Context) {
	if len(t.timeline.Steps) == 0 {
		return
	}
	for _, part := range t.scene.way() {
		place, at := t.seats(part)
		for _, node := range at {
			limited, cancel := context.WithTimeout(ctx, oneSeat)
			if pod, err := t.awaitProxy(limited, place, node); err == nil {
				t.shared.note(part, pod)
			}
			cancel()
		}
	}
}

// checkAfterwards notes how the proxies that there are after steps carried what came to
// them; and that something did, where clients were answered to the end. A proxy that is
// not there any more took its counters along, and one that is ending may have carried the
// last requests.
func (t *scenarioTrial) checkAfterwards(ctx context.Context, entries []ledger.ClientEntry) error {
	limited, cancel := context.WithTimeout(ctx, afterSteps)
	defer cancel()
	present, err := t.present(limited)
	var counted risesOf
	if err == nil {
		counted, err = t.counters(limited, present)
	}
	switch {
	case ctx.Err() != nil:
		return err
	case err != nil:
		t.evidence.Carried = append(t.evidence.Carried, record.Check{Name: "carriers" + afterwards, Detail: fmt.Sprintf("what carries requests cannot be asked %v after the timeline: %v", afterSteps, err)})
		return nil
	}
	all, err := t.onAllNodes(ctx)
	if err != nil {
		return err
	}
	ending := slices.ContainsFunc(all, func(p corev1.Pod) bool {
		return p.DeletionTimestamp != nil && slices.Contains(t.shared.nodes, p.Spec.NodeName)
	})
	checks, err := t.scene.afterwards(counted, !ending && t.answeredLately(entries))
	t.evidence.Carried = append(t.evidence.Carried, checks...)
	return err
}

// answeredLately says that requests were answered which were sent right before the
// timeline's end, and after all that steps did. What is undone then comes later than that.
func (t *scenarioTrial) answeredLately(entries []ledger.ClientEntry) bool {
	end := t.zero.Add(t.timeline.Duration)
	from := end.Add(-lately).UnixNano()
	for _, e := range t.events {
		if e.SentNS < end.UnixNano() {
			from = max(from, e.CommittedNS)
		}
	}
	return slices.ContainsFunc(entries, func(e ledger.ClientEntry) bool { return e.Outcome == ledger.OutcomeOK && e.SentNS >= from })
}

// Ends of the names of checks.
const (
	hboneCheck = "-hbone"         // how connections were carried, however many
	bytesCheck = "-ztunnel-bytes" // how much at least
	afterwards = "-afterwards"
)

// afterwards checks by what proxies counted since they began, however little, that it went
// over HBONE; and where requests flowed to the end, that each side of each service had some.
func (s *scene) afterwards(counted risesOf, flows bool) ([]record.Check, error) {
	of, ends := flowed{}, []string{hboneCheck}
	if flows {
		of, ends = flowed{1, 1}, append(ends, bytesCheck)
	}
	all, err := s.carried(counted, of)
	var out []record.Check
	for _, c := range all {
		if slices.ContainsFunc(ends, func(end string) bool { return strings.HasSuffix(c.Name, end) }) {
			c.Name += afterwards
			out = append(out, c)
		}
	}
	return out, err
}
