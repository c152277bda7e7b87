// Package accesslog reads lines of Envoy's access logs in user-defined formats: which field a
// name stands for, how times, numbers and addresses are written, and the values of a JSON line.
//
//	line of JSON -> [Scan] -> path, value -> [Find] -> Field -> [Time], [Number], [Address]
package accesslog

import "strings"

// Field is the meaning of a value in an access log.
type Field uint8

// The fields, with Envoy's command operators. Other is any other field.
const (
	Other      Field = iota
	Start            // START_TIME
	Duration         // DURATION, ms
	Status           // RESPONSE_CODE
	GRPC             // GRPC_STATUS_NUMBER
	Flags            // RESPONSE_FLAGS
	Details          // RESPONSE_CODE_DETAILS
	Closed           // CONNECTION_TERMINATION_DETAILS
	Transport        // UPSTREAM_TRANSPORT_FAILURE_REASON
	Cluster          // UPSTREAM_CLUSTER, UPSTREAM_CLUSTER_RAW
	Host             // UPSTREAM_HOST
	Authority        // REQ(:AUTHORITY)
	ServerName       // REQUESTED_SERVER_NAME
	Local            // DOWNSTREAM_LOCAL_ADDRESS
	RequestID        // REQ(X-REQUEST-ID)
	Received         // BYTES_RECEIVED
	Sent             // BYTES_SENT
	Protocol         // PROTOCOL
	Source           // UPSTREAM_LOCAL_ADDRESS
	Attempts         // UPSTREAM_REQUEST_ATTEMPT_COUNT
)

// names lists the names of fields in logs, the most specific first: Istio's own, then those in
// published configurations of Istio, Envoy Gateway, Contour, Gloo and Yggdrasil. They are
// compared as normalized by plain: response_code matches responseCode, Response-Code and
// response.code. docs/assess.md has the table.
var names = [...][]string{
	Start:      {"starttime", "start", "timestamp", "time", "ts", "requeststarttime"},
	Duration:   {"duration", "durationms"},
	Status:     {"responsecode", "status", "statuscode", "httpstatuscode", "httpresponsestatuscode", "httpstatus", "responsestatuscode", "responsestatus", "code", "respcode", "rescode"},
	GRPC:       {"grpcstatusnumber"},
	Flags:      {"responseflags", "flags", "respflags"},
	Details:    {"responsecodedetails"},
	Closed:     {"connectionterminationdetails"},
	Transport:  {"upstreamtransportfailurereason"},
	Cluster:    {"upstreamcluster", "upstreamclusterraw", "upstreamclustername"},
	Host:       {"upstreamhost", "upstreamaddress"},
	Authority:  {"authority", "host"},
	ServerName: {"requestedservername", "sni"},
	Local:      {"downstreamlocaladdress"},
	RequestID:  {"requestid", "xrequestid"},
	Received:   {"bytesreceived", "requestbytes"},
	Sent:       {"bytessent", "responsebytes"},
	Protocol:   {"protocol"},
	Source:     {"upstreamlocaladdress"},
	Attempts:   {"upstreamrequestattemptcount"},
}

type named struct {
	field Field
	rank  int
}

var byName = func() map[string]named {
	index := map[string]named{}
	for field, all := range names {
		for rank, name := range all {
			index[name] = named{Field(field), rank}
		}
	}
	return index
}()

// longestName is the length of the longest of names.
const longestName = 32

// Find returns the field that a name stands for. If a line has several names of the same field,
// the value of the name with the lowest rank counts.
func Find(name []byte) (f Field, rank int) {
	var buffer [longestName]byte
	plain, ok := plain(buffer[:0], name)
	if !ok {
		return Other, 0
	}
	n := byName[string(plain)] // does not allocate
	return n.field, n.rank
}

// plain appends the letters, in lower case, and the digits of a name. ok is false for a name
// longer than all known ones.
func plain(to, name []byte) (_ []byte, ok bool) {
	for _, c := range name {
		switch {
		case 'A' <= c && c <= 'Z':
			c += 'a' - 'A'
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9':
		case strings.IndexByte("_-.:@ ", c) >= 0:
			continue
		default:
			return nil, false
		}
		if len(to) == cap(to) {
			return nil, false
		}
		to = append(to, c)
	}
	return to, true
}
