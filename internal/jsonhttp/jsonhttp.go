// Package jsonhttp is shared by the roles' control servers and their clients: one JSON
// document in each direction, both of limited size. A [Server] listens on loopback and
// rejects requests from web pages. A rejection is sent as a [Problem], which [Client.Do]
// turns into an error with the role's own words, hint and exit code.
package jsonhttp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// Problem is the body of every unsuccessful response.
type Problem struct {
	Error string `json:"error"`
	Hint  string `json:"hint,omitempty"`
}

// StatusError is an unsuccessful response; errors of [Client.Do] wrap it.
type StatusError struct {
	Status int
	Text   string
}

func (e *StatusError) Error() string { return fmt.Sprintf("%d: %s", e.Status, e.Text) }

// Answered reports whether err is a response with the given status.
func Answered(err error, status int) bool {
	var answer *StatusError
	return errors.As(err, &answer) && answer.Status == status
}

// maxProblem limits how much of an unsuccessful response is read.
const maxProblem = 64 << 10

// Client talks to one server.
type Client struct {
	HTTPClient *http.Client // nil: http.DefaultClient
	BaseURL    string       // "http://127.0.0.1:15990"
	Name       string       // name of the server, which precedes each error
	MaxAnswer  int64        // maximum size of a response, in bytes
	Token      string       // that the server requires; "" for none
}

// Do sends in as JSON, or no body if it is nil, and decodes the response into out. A
// rejection of the input (400, 413) has exit code 2.
func (c Client) Do(ctx context.Context, method, path string, in, out any) error {
	stream, err := c.send(ctx, method, path, in)
	if err != nil {
		return err
	}
	defer stream.Close()
	data, err := io.ReadAll(io.LimitReader(stream, c.MaxAnswer+1))
	if err == nil && int64(len(data)) > c.MaxAnswer {
		err = fmt.Errorf("the answer is longer than %d bytes", c.MaxAnswer)
	}
	if err == nil {
		err = json.Unmarshal(data, out)
	}
	if err != nil {
		return c.fail(method, path, err)
	}
	return nil
}

// Ask is [Client.Do] that returns the response as a value.
func Ask[T any](ctx context.Context, c Client, method, path string, in any) (out T, err error) {
	err = c.Do(ctx, method, path, in, &out)
	return out, err
}

// Stream gets a response that is too long for one document. The caller reads, limits and
// closes it. A response compressed with gzip is decompressed.
func (c Client) Stream(ctx context.Context, path string) (io.ReadCloser, error) {
	return c.send(ctx, http.MethodGet, path, nil)
}

func (c Client) fail(method, path string, err error) error {
	return fmt.Errorf("%s: %s %s: %w", c.Name, method, path, err)
}

// send sends in as JSON, or no body if it is nil, and returns the body of a successful
// response.
func (c Client) send(ctx context.Context, method, path string, in any) (io.ReadCloser, error) {
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return nil, c.fail(method, path, err)
		}
		body = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.BaseURL, "/")+path, body)
	if err != nil {
		return nil, c.fail(method, path, err)
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.Token)
	}
	client := c.HTTPClient
	if client == nil {
		client = http.DefaultClient
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name, err) // err names method and address
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		data, _ := io.ReadAll(io.LimitReader(resp.Body, maxProblem)) // a partial body suffices
		return nil, problem(resp.StatusCode, data, func(err error) error { return c.fail(method, path, err) })
	}
	return resp.Body, nil
}

// problem converts an unsuccessful response to an error.
func problem(status int, body []byte, fail func(error) error) error {
	var p Problem
	if json.Unmarshal(body, &p) != nil || p.Error == "" {
		p.Error = strings.TrimSpace(string(body[:min(len(body), 200)]))
	}
	err := fail(&StatusError{Status: status, Text: p.Error})
	if status == http.StatusBadRequest || status == http.StatusRequestEntityTooLarge {
		err = errs.WithCode(err, errs.CodeUsage)
	}
	if p.Hint != "" {
		err = errs.WithHint(err, "%s", p.Hint)
	}
	return err
}

// Version asks which program is running (see [HandleVersion]): a cheap test that it is up.
func (c Client) Version(ctx context.Context) (string, error) {
	out, err := Ask[version](ctx, c, http.MethodGet, "/v1/version", nil)
	return out.Version, err
}

// exchanges is the number of exchanges of [Client.Clock].
const exchanges = 5

// Clock is the state of a server's wall clock.
type Clock struct {
	// Ahead is its lead over this process's clock, and Bound the bound of the error.
	Ahead, Bound time.Duration
	// Stepped is how far it was stepped ahead since the server's process began.
	Stepped time.Duration
}

// Clock compares the clock of a server (see [HandleClock]) with this process's. The error is
// at most half the round trip of the quickest of several exchanges (Cristian, "Probabilistic
// clock synchronization", 1989).
func (c Client) Clock(ctx context.Context) (Clock, error) {
	out := Clock{Bound: time.Hour}
	for range exchanges {
		sent := time.Now()
		there, err := Ask[clock](ctx, c, http.MethodGet, "/v1/clock", nil)
		if err != nil {
			return Clock{}, err
		}
		if half := time.Since(sent) / 2; half < out.Bound {
			out = Clock{Ahead: time.Duration(there.UnixNS - sent.Add(half).UnixNano()), Bound: half, Stepped: time.Duration(there.SteppedNS)}
		}
	}
	return out, nil
}
