package jsonhttp

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
)

// statusError is an error with the status of its response.
type statusError struct {
	error
	status int
}

func (e statusError) Unwrap() error { return e.error }

// WithStatus sets the status with which [Handle] reports an error.
func WithStatus(status int, err error) error { return statusError{err, status} }

// None is the body of requests without one, and of responses that only confirm success.
type None = struct{}

// Handle serves a pattern with the result of do: a document, or an error with the status
// from [WithStatus], otherwise from [Fail]. Unless In is [None], [Read] parses the request.
func Handle[In, Out any](mux *http.ServeMux, pattern string, do func(*http.Request, In) (Out, error)) {
	mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		var in In
		if _, none := any(in).(None); !none && !Read(w, r, &in) {
			return
		}
		out, err := do(r, in)
		if err != nil {
			Reject(w, err)
			return
		}
		Answer(w, out)
	})
}

// Reject sends an error with the status from [WithStatus], otherwise as [Fail] does.
func Reject(w http.ResponseWriter, err error) {
	if with := (statusError{}); errors.As(err, &with) {
		Refuse(w, with.status, err)
		return
	}
	Fail(w, err)
}

// Query returns the non-negative number in a query, or 0 without one.
func Query(r *http.Request, name string) (int, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, WithStatus(http.StatusBadRequest, fmt.Errorf("%s %.40q: want an index, from 0 on", name, text))
	}
	return n, nil
}
