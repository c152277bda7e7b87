package stream

import "fmt"

// Code is a status code of gRPC.
type Code int

// Codes used here.
const (
	OK                Code = 0
	Canceled          Code = 1
	Unknown           Code = 2
	InvalidArgument   Code = 3
	DeadlineExceeded  Code = 4
	PermissionDenied  Code = 7
	ResourceExhausted Code = 8
	Internal          Code = 13
	Unavailable       Code = 14
	Unauthenticated   Code = 16
)

var codeNames = map[Code]string{OK: "ok", Canceled: "canceled", Unknown: "unknown", InvalidArgument: "invalid-argument",
	DeadlineExceeded: "deadline-exceeded", PermissionDenied: "permission-denied", ResourceExhausted: "resource-exhausted",
	Internal: "internal", Unavailable: "unavailable", Unauthenticated: "unauthenticated"}

func (c Code) String() string {
	if name, ok := codeNames[c]; ok {
		return name
	}
	return fmt.Sprintf("code-%d", int(c))
}

// Status is how a stream ended.
type Status struct {
	Code    Code
	Message string
	Local   bool // ended by this side or by the connection
}

func (s *Status) Error() string { return s.Code.String() + ": " + s.Message }
