package fidelity_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/testing/fidelity"
	"github.com/meshtrial/meshtrial/testing/must"
	"pgregory.net/rapid"
)

// transcripts generates arbitrary transcripts.
func transcripts() *rapid.Generator[*fidelity.Transcript] {
	text := rapid.OneOf(rapid.StringMatching(`[a-z|.0-9_]{1,12}`), rapid.String())
	list := rapid.Custom(func(t *rapid.T) []string {
		out := rapid.SliceOfN(text, 0, 3).Draw(t, "list")
		slices.Sort(out)
		if len(out) == 0 {
			return nil
		}
		return out
	})
	step := rapid.Custom(func(t *rapid.T) fidelity.Step {
		s := fidelity.Step{Kind: rapid.SampledFrom([]string{fidelity.FromClient, fidelity.FromServer, fidelity.Mark}).Draw(t, "kind"), Type: text.Draw(t, "type")}
		switch s.Kind {
		case fidelity.FromClient:
			s.Subscribe, s.Unsubscribe, s.Initial = list.Draw(t, "subscribe"), list.Draw(t, "unsubscribe"), list.Draw(t, "initial")
			s.Nonce = rapid.SampledFrom([]string{fidelity.None, fidelity.Due, fidelity.Again, fidelity.Other}).Draw(t, "nonce")
			s.Version = rapid.SampledFrom([]string{"", fidelity.None, fidelity.Due, fidelity.Again, fidelity.Other}).Draw(t, "version")
			s.Answer = rapid.SampledFrom([]string{"", fidelity.Ack, fidelity.Nack}).Draw(t, "answer")
			if rapid.Bool().Draw(t, "has node") {
				s.Node = &fidelity.Node{ID: text.Draw(t, "id"), Fields: list.Draw(t, "fields"), Metadata: list.Draw(t, "metadata")}
			}
		case fidelity.FromServer:
			for _, name := range list.Draw(t, "resources") {
				s.Resources = append(s.Resources, fidelity.Resource{Name: name, Refs: list.Draw(t, "refs")})
			}
			s.Removed = list.Draw(t, "removed")
		}
		return s
	})
	return rapid.Custom(func(t *rapid.T) *fidelity.Transcript {
		tr := &fidelity.Transcript{Mode: rapid.SampledFrom([]string{fidelity.ModeDelta, fidelity.ModeSotW}).Draw(t, "mode")}
		tr.Steps = rapid.SliceOfN(step, 0, 8).Draw(t, "steps")
		if len(tr.Steps) == 0 {
			tr.Steps = nil
		}
		return tr
	})
}

func TestYAMLComesBackAsItWas(t *testing.T) {
	for _, name := range []string{"delta-connect.yaml", "sotw-reconnect.yaml", "ztunnel-connect.yaml"} {
		tr := readTranscript(t, name)
		data, err := tr.YAML()
		must.OK(t, err)
		if back, err := fidelity.Parse(data); err != nil || !reflect.DeepEqual(tr, back) || len(tr.Steps) < 4 {
			t.Errorf("%s: %d steps, %v", name, len(tr.Steps), err)
		}
	}
}

func TestComparison(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := transcripts().Draw(t, "a"), transcripts().Draw(t, "b")
		if c := fidelity.Compare(a, a, nil); c.SameSteps != c.Steps || c.SameNode != c.Node || c.Diff != "" {
			t.Fatalf("with itself: %s\n%s", c, c.Diff)
		}
		one, other := fidelity.Compare(a, b, nil), fidelity.Compare(b, a, nil)
		if one.SameSteps != other.SameSteps || one.Steps != other.Steps {
			t.Fatalf("%s one way, %s the other", one, other)
		}
		if score := one.Score(); score < 0 || score > 1 {
			t.Fatalf("score %v", score)
		}
		if (one.Diff == "") != (one.SameSteps == one.Steps && one.SameNode == one.Node && a.Mode == b.Mode) {
			t.Fatalf("%s, but the difference is %q", one, one.Diff)
		}
	})
}

func TestComparisonSeesOrder(t *testing.T) {
	read := func(text string) *fidelity.Transcript {
		tr, err := fidelity.Parse([]byte(text))
		must.OK(t, err)
		return tr
	}
	const (
		begin     = "mode: delta\nsteps:\n- {kind: client, type: cds, nonce: none, node: {id: it, metadata: [A, B]}}\n- {kind: server, type: cds, resources: [{name: a, refs: [eds=a]}]}\n"
		subscribe = "- {kind: client, type: eds, nonce: none, subscribe: [a]}\n"
		ackCDS    = "- {kind: client, type: cds, nonce: due, answer: ack}\n"
		eds       = "- {kind: server, type: eds, resources: [{name: a}]}\n"
		ackEDS    = "- {kind: client, type: eds, nonce: due, answer: ack}\n"
	)
	real := read(begin + subscribe + ackCDS + eds + ackEDS)
	for _, c := range []struct {
		name, text string
		score      float64
		diff       string
	}{
		{"a repeated push before the first mark is chance", subscribe + ackCDS + eds + ackEDS + eds + ackEDS, 1, ""},
		{"ACK before the subscription", ackCDS + subscribe + eds + ackEDS, 6. / 7, "+ client eds nonce=none\n+   subscribe a"},
		{"another name", strings.Replace(subscribe, "[a]", "[b]", 1) + ackCDS + eds + ackEDS, 6. / 7, "-   subscribe a"},
		{"no last ACK", subscribe + ackCDS + eds, 6. / 7, "- client eds nonce=due ack"},
	} {
		got := fidelity.Compare(real, read(begin+c.text), nil, fidelity.Core...)
		if got.Score() != c.score || !strings.Contains(got.Diff, c.diff) {
			t.Errorf("%s: %s, want %v\n%s", c.name, got, c.score, got.Diff)
		}
	}
}

func TestNormalise(t *testing.T) {
	tr, err := fidelity.Parse([]byte("mode: delta\nsteps:\n- {kind: client, type: cds, nonce: none, node: {id: sidecar~10.2.0.1~pod-x.n~n}}\n" +
		"- {kind: server, type: lds, resources: [{name: 10.10.0.1_80}, {name: 10.9.0.1_80}, {name: 0.0.0.0_80}, {name: 10.2.0.1_80}]}\n"))
	must.OK(t, err)
	got := tr.Normalise(map[string]string{"pod-x": "POD"})
	const want = "mode delta\nclient cds nonce=none\n  node sidecar~ADDRESS1~POD.n~n\nserver lds\n  resource 0.0.0.0_80\n  resource ADDRESS1_80\n  resource ADDRESS2_80\n  resource ADDRESS3_80\n"
	if got.String() != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
