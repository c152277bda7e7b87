package observe

import (
	"context"
	"fmt"
	"net/http"

	"github.com/meshtrial/meshtrial/internal/jsonhttp"
	"github.com/meshtrial/meshtrial/record"
)

// maxAnswer bounds how much of a response from an observer or a proxy is read.
const maxAnswer = 256 << 20

// Client calls the observe role of one node.
type Client struct {
	HTTPClient *http.Client // nil: http.DefaultClient; must have no timeout shorter than a window
	BaseURL    string       // "http://127.0.0.1:15992"
}

// Snapshots waits on the node for the request's instants and returns one
// snapshot per instant. It returns after the last one.
func (c Client) Snapshots(ctx context.Context, request SnapshotsRequest) ([]Snapshot, error) {
	out, err := jsonhttp.Ask[SnapshotsAnswer](ctx, c.json(), http.MethodPost, "/v1/snapshots", request)
	if err != nil {
		return nil, err
	}
	if want := max(len(request.AtUnixNS), 1); len(out.Snapshots) != want {
		return nil, fmt.Errorf("observe: asked for %d snapshots, got %d", want, len(out.Snapshots))
	}
	return out.Snapshots, nil
}

// Snapshot reads the counters of targets now. Without memory it costs the node
// some tens of microseconds per target.
func (c Client) Snapshot(ctx context.Context, targets []Target, memory bool) (Snapshot, error) {
	return c.One(ctx, SnapshotsRequest{Targets: targets, Memory: memory})
}

// One is like Snapshots for a single instant.
func (c Client) One(ctx context.Context, request SnapshotsRequest) (Snapshot, error) {
	all, err := c.Snapshots(ctx, request)
	if err != nil {
		return Snapshot{}, err
	}
	return all[0], nil
}

// Machine describes the node.
func (c Client) Machine(ctx context.Context) (record.Machine, error) {
	return jsonhttp.Ask[record.Machine](ctx, c.json(), http.MethodGet, "/v1/machine", nil)
}

// Version returns the version of the observer's program.
func (c Client) Version(ctx context.Context) (string, error) { return c.json().Version(ctx) }

// Clock compares the node's clock with this process's.
func (c Client) Clock(ctx context.Context) (jsonhttp.Clock, error) { return c.json().Clock(ctx) }

func (c Client) json() jsonhttp.Client {
	return jsonhttp.Client{HTTPClient: c.HTTPClient, BaseURL: c.BaseURL, Name: "observe", MaxAnswer: maxAnswer}
}
