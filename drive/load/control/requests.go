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

// requests streams the log of a run that has ended.
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
	packed, _ := gzip.NewWriterLevel(w, gzip.BestSpeed) // a level that there is
	if err := result.Requests.Write(packed); err == nil {
		_ = packed.Close()
	}
}

// SetRate makes rps the rate of a run from an instant on, by the role's wall
// clock; the zero time stands for at once. It returns the change as it is in
// force. The error wraps [load.ErrLate] if the instant has passed or the run
// has ended; then nothing has changed.
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

// Progress returns how far a run is now: cheap enough to be asked for every
// few milliseconds.
func (c *Client) Progress(ctx context.Context, run string) (load.Progress, error) {
	var out load.Progress
	err := c.http.Do(ctx, http.MethodGet, runPath(run, "progress"), nil, &out)
	return out, err
}

// EachRequest calls each with the log's header and each request of an ended run, by number,
// until the first error.
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
