package observe

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/meshtrial/meshtrial/internal/jsonhttp"
	"github.com/meshtrial/meshtrial/record"
)

// maxAnswer bounds what is read of an observer's answer, or a proxy's.
const maxAnswer = 256 << 20

// Client talks to the observe role of one node.
type Client struct {
	HTTPClient *http.Client // nil: http.DefaultClient; must have no timeout shorter than a window
	BaseURL    string       // "http://127.0.0.1:15992"
}

// Snapshots waits for the request's instants, on the node, and returns a
// snapshot for each. It returns after the last one.
func (c Client) Snapshots(ctx context.Context, request SnapshotsRequest) ([]Snapshot, error) {
	var out SnapshotsAnswer
	if err := c.do(ctx, http.MethodPost, "/v1/snapshots", request, &out); err != nil {
		return nil, err
	}
	if len(out.Snapshots) != len(request.AtUnixNS) {
		return nil, fmt.Errorf("observe: asked for %d snapshots, got %d", len(request.AtUnixNS), len(out.Snapshots))
	}
	return out.Snapshots, nil
}

// Snapshot reads the counters of targets now. Without memory it costs the
// node some tens of microseconds a target.
func (c Client) Snapshot(ctx context.Context, targets []Target, memory bool) (Snapshot, error) {
	var out Snapshot
	return out, c.do(ctx, http.MethodPost, "/v1/snapshot", SnapshotRequest{Targets: targets, Memory: memory}, &out)
}

// SnapshotAll is Snapshot at an edge of a window, with the node's other processes.
func (c Client) SnapshotAll(ctx context.Context, request SnapshotRequest) (Snapshot, error) {
	request.Processes = true
	var out Snapshot
	return out, c.do(ctx, http.MethodPost, "/v1/snapshot", request, &out)
}

// Machine describes the node.
func (c Client) Machine(ctx context.Context) (record.Machine, error) {
	var out record.Machine
	return out, c.do(ctx, http.MethodGet, "/v1/machine", nil, &out)
}

// ClockOffset returns how far the node's clock is ahead of this process's,
// and the bound of the error: half the round trip of the quickest of several
// exchanges.
func (c Client) ClockOffset(ctx context.Context) (offset, bound time.Duration, err error) {
	return c.json().ClockOffset(ctx)
}

// Clock is ClockOffset, with how far the node's clock was set since its observer began.
func (c Client) Clock(ctx context.Context) (jsonhttp.Clock, error) { return c.json().Clock(ctx) }

func (c Client) json() jsonhttp.Client {
	return jsonhttp.Client{HTTPClient: c.HTTPClient, BaseURL: c.BaseURL, Name: "observe", MaxAnswer: maxAnswer}
}

func (c Client) do(ctx context.Context, method, path string, in, out any) error {
	return c.json().Do(ctx, method, path, in, out)
}
