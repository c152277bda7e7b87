package fidelity

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/credentials/insecure"

	"github.com/meshtrial/meshtrial/drive/xds"
	"github.com/meshtrial/meshtrial/testing/eventually"
	"github.com/meshtrial/meshtrial/testing/loopback"
	"github.com/meshtrial/meshtrial/testing/must"
)

// notImitated lists parts of a real node that the simulated one deliberately omits: istiod
// does not read any of them, and the list of Envoy's extensions alone is 30 KB.
var notImitated = []string{"field extensions", "field user_agent_build_version", "field locality"}

func readTranscript(t *testing.T, name string) *Transcript {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	must.OK(t, err)
	return parse(t, string(data))
}

// steps counts what a recorder has seen.
func steps(t *testing.T, r *Recorder) (streams, steps int) {
	t.Helper()
	all, err := r.Transcripts()
	must.OK(t, err)
	for _, tr := range all {
		steps += len(tr.Steps)
	}
	return len(all), steps
}

// still waits until a recorder with at least this many streams has been quiet for a while.
func still(t *testing.T, ctx context.Context, r *Recorder, streams int, quiet time.Duration) {
	t.Helper()
	const every = 10 * time.Millisecond
	// Measured in looks, which stop while the machine is suspended.
	last, looks := -1, 0
	for {
		open, now := steps(t, r)
		if looks++; now != last {
			last, looks = now, 0
		}
		if open >= streams && looks >= int(quiet/every) {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%d streams with %d steps, want %d streams: %v", open, now, streams, ctx.Err())
		case <-time.After(every):
		}
	}
}

// TestSimulatedSidecarIsLikeARecordedOne replays to a simulated sidecar, gateway and
// ztunnel what was done to a real agent and Envoy, or to a real ztunnel, and compares what
// it sent.
func TestSimulatedSidecarIsLikeARecordedOne(t *testing.T) {
	for _, c := range []struct {
		recorded, mode, node string
		types                []string
	}{
		{"delta", xds.ModeDelta, xds.NodeSidecar, Core}, {"sotw", xds.ModeSotW, xds.NodeSidecar, Core},
		{"gateway-delta", xds.ModeDelta, xds.NodeRouter, Core}, {"gateway-sotw", xds.ModeSotW, xds.NodeRouter, Core},
		{"ztunnel", xds.ModeDelta, xds.NodeZtunnel, Ztunnel},
	} {
		t.Run(c.recorded, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
			defer cancel()
			connect, reconnect := readTranscript(t, c.recorded+"-connect.yaml"), readTranscript(t, c.recorded+"-reconnect.yaml")
			replay, recorder, spec := replayed(t, connect)
			spec.Mode, spec.Proxies[0].Type = c.mode, c.node
			fleet, err := xds.Start(ctx, spec)
			must.OK(t, err)
			defer fleet.Stop()
			retrace(t, ctx, connect, replay, recorder)
			recorder.Drop()
			// First everything that was requested, however long it takes, then nothing
			// more.
			eventually.Succeeds(t, time.Minute, "all is asked for again", func() error {
				all, err := recorder.Transcripts()
				if err != nil || len(all) < 2 {
					return fmt.Errorf("%d transcripts, %w", len(all), err)
				}
				if diff := Differences(reconnect, alike(all[1], reconnect), notImitated, c.types...); diff != "" {
					return fmt.Errorf("- is what the real agent sent, + the simulated one:\n%s", diff)
				}
				return nil
			})
			still(t, ctx, recorder, 2, settled)
			all, err := recorder.Transcripts()
			must.OK(t, err)
			compare(t, "connect", connect, alike(all[0], connect), notImitated, c.types...)
			compare(t, "reconnect", reconnect, alike(all[1], reconnect), notImitated, c.types...)
		})
	}
}

// settled is how long nothing may pass once everything requested has arrived.
const settled = 500 * time.Millisecond

// replayed replays a transcript through a recorder, and returns the spec of the simulated
// sidecar that takes the place of the recorded one.
func replayed(t *testing.T, recorded *Transcript) (*Replay, *Recorder, xds.Spec) {
	t.Helper()
	replay, err := NewReplay(recorded)
	must.OK(t, err)
	istiod := loopback.Serve(t, replay.Server.Serve, replay.Close)
	recorder, err := NewRecorder(Options{Upstream: istiod, UpstreamTLS: insecure.NewCredentials()})
	must.OK(t, err)
	spec := xds.DefaultSpec(loopback.Serve(t, recorder.Serve, func() { recorder.Close() }))
	spec.Proxies = []xds.Proxy{{Name: "POD", Namespace: "fidelity", IP: "192.0.2.1", Labels: map[string]string{"app": "agent"}, Node: "lab",
		Ports: []xds.Port{{Name: "http", ContainerPort: 80, Protocol: "TCP"}}}}
	return replay, recorder, spec
}

// retrace repeats for a connected sidecar what was done after each mark of a transcript.
func retrace(t *testing.T, ctx context.Context, recorded *Transcript, replay *Replay, recorder *Recorder) {
	t.Helper()
	still(t, ctx, recorder, 1, settled)
	for _, step := range recorded.Steps {
		if step.Kind != Mark {
			continue
		}
		recorder.Mark(step.Type)
		if mark, ok := replay.Next(); !ok || mark != step.Type {
			t.Fatalf("replay is at %q, want %q", mark, step.Type)
		}
		still(t, ctx, recorder, 1, settled)
	}
}

// alike replaces the simulated sidecar's address by the recorded one's.
func alike(simulated, recorded *Transcript) *Transcript {
	return simulated.Normalise(map[string]string{"192.0.2.1": strings.Split(recorded.NodeID(), "~")[1]})
}

func compare(t *testing.T, what string, recorded, simulated *Transcript, ignore []string, types ...string) {
	t.Helper()
	if diff := Differences(recorded, simulated, ignore, types...); diff != "" {
		t.Errorf("%s: - is what the real agent sent, + the simulated one:\n%s", what, diff)
	}
	if n := simulated.Unanswered(types...); n != 0 {
		t.Errorf("%s: %d responses were not answered", what, n)
	}
}
