package jsonhttp

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
)

// statusError is an error with the status of its answer.
type statusError struct {
	error
	status int
}

func (e statusError) Unwrap() error { return e.error }

// WithStatus gives an error the status with which [Handle] refuses.
func WithStatus(status int, err error) error { return statusError{err, status} }

// None is the body of requests without one, and of answers that say no more than that it was
// done.
type None = struct{}

// Handle answers requests of a pattern with what do returns: a document, or a refusal by
// [WithStatus], else by [Fail]. Unless In is [None], the request is parsed by [Read].
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

// Reject refuses with the status of [WithStatus], else as [Fail].
func Reject(w http.ResponseWriter, err error) {
	if with := (statusError{}); errors.As(err, &with) {
		Refuse(w, with.status, err)
		return
	}
	Fail(w, err)
}

// Query returns the number of a query, from 0 on; 0 without it.
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
