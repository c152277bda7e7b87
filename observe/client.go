package observe

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/meshmark/meshmark/errs"
	"github.com/meshmark/meshmark/record"
)

// maxAnswer bounds what a client reads of an answer.
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

// Machine describes the node.
func (c Client) Machine(ctx context.Context) (record.Machine, error) {
	var out record.Machine
	return out, c.do(ctx, http.MethodGet, "/v1/machine", nil, &out)
}

// ClockOffset returns how far the node's clock is ahead of this process's,
// and the bound of the error: half the round trip of the quickest of several
// exchanges.
func (c Client) ClockOffset(ctx context.Context) (offset, bound time.Duration, err error) {
	bound = time.Hour
	for range 5 {
		var clock Clock
		sent := time.Now()
		if err := c.do(ctx, http.MethodGet, "/v1/clock", nil, &clock); err != nil {
			return 0, 0, err
		}
		if half := time.Since(sent) / 2; half < bound {
			bound = half
			offset = time.Duration(clock.UnixNS - sent.Add(half).UnixNano())
		}
	}
	return offset, bound, nil
}

func (c Client) do(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.BaseURL, "/")+path, body)
	if err != nil {
		return err
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	client := c.HTTPClient
	if client == nil {
		client = http.DefaultClient
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("observe: %w", err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("observe: %s %s: %w", method, path, err)
	}
	if resp.StatusCode != http.StatusOK {
		return problem(method, path, resp.StatusCode, data)
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("observe: %s %s: %w", method, path, err)
	}
	return nil
}

// problem turns an unsuccessful answer into an error.
func problem(method, path string, status int, body []byte) error {
	var p Problem
	if json.Unmarshal(body, &p) != nil || p.Error == "" {
		p.Error = strings.TrimSpace(string(body[:min(len(body), 200)]))
	}
	err := fmt.Errorf("observe: %s %s: %d: %s", method, path, status, p.Error)
	if status == http.StatusBadRequest {
		err = errs.WithCode(err, errs.CodeUsage)
	}
	if p.Hint != "" {
		err = errs.WithHint(err, "%s", p.Hint)
	}
	return err
}
