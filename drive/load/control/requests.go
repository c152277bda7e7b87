package control

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/drive/load"
	"github.com/meshtrial/meshtrial/internal/jsonhttp"
)

func (s *Server) rate(w http.ResponseWriter, r *http.Request, _ string, running *load.Running) {
	var in Rate
	if !jsonhttp.Read(w, r, &in) {
		return
	}
	at := time.Time{}
	if in.AtUnixNS != 0 {
		at = time.Unix(0, in.AtUnixNS)
	}
	made, err := running.SetRate(in.RPS, at)
	switch {
	case errors.Is(err, load.ErrLate), errors.Is(err, load.ErrEnded):
		jsonhttp.Refuse(w, http.StatusConflict, err)
	case err != nil:
		jsonhttp.Fail(w, err)
	default:
		jsonhttp.Answer(w, made)
	}
}

// requests sends the request log of an ended run.
func (s *Server) requests(w http.ResponseWriter, r *http.Request, _ string, running *load.Running) {
	if !done(running) {
		jsonhttp.Refuse(w, http.StatusTooEarly, errors.New("the run has not ended yet"))
		return
	}
	result, err := running.Result(r.Context())
	if err != nil {
		jsonhttp.Fail(w, err)
		return
	}
	if result.Requests == nil {
		jsonhttp.Refuse(w, http.StatusNotFound, errors.New("the run kept no log of its requests (request_log)"))
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		_ = result.Requests.Write(w) // the client has gone; it will ask again
		return
	}
	w.Header().Set("Content-Encoding", "gzip")
	packed, _ := gzip.NewWriterLevel(w, gzip.BestSpeed) // fails only for unknown levels
	if err := result.Requests.Write(packed); err == nil {
		_ = packed.Close()
	}
}

// SetRate sets the rate of a run from a time on, by the role's wall clock; the zero
// time means at once. It returns the change as applied. If the time has passed or the
// run has ended, nothing changes and the error wraps [load.ErrLate].
func (c *Client) SetRate(ctx context.Context, run string, rps float64, at time.Time) (load.RateChange, error) {
	in := Rate{RPS: rps}
	if !at.IsZero() {
		in.AtUnixNS = at.UnixNano()
	}
	var out load.RateChange
	err := c.http.Do(ctx, http.MethodPost, runPath(run, "rate"), in, &out)
	var answer *jsonhttp.StatusError
	if errors.As(err, &answer) && answer.Status == http.StatusConflict {
		err = fmt.Errorf("%w: %w", load.ErrLate, err)
	}
	return out, err
}

// Progress returns the progress of a run. It is cheap enough to be called every few
// milliseconds.
func (c *Client) Progress(ctx context.Context, run string) (load.Progress, error) {
	var out load.Progress
	err := c.http.Do(ctx, http.MethodGet, runPath(run, "progress"), nil, &out)
	return out, err
}

// EachRequest calls each with the log's header and each request of an ended run, ordered by
// number, until the first error.
func (c *Client) EachRequest(ctx context.Context, run string, each func(*load.RequestsHeader, load.Request) error) (load.RequestsHeader, error) {
	path := runPath(run, "requests")
	body, err := c.http.Stream(ctx, path)
	if err != nil {
		return load.RequestsHeader{}, err
	}
	defer body.Close()
	return load.ReadRequests("load control: GET "+path, body, each)
}

func runPath(run, what string) string { return "/v1/runs/" + url.PathEscape(run) + "/" + what }
