package control

import (
	"reflect"
	"strings"

	"github.com/invopop/jsonschema"

	"github.com/meshtrial/meshtrial/internal/jsonhttp"
)

// route is an operation of the control server.
type route struct {
	method, path, summary string
	in, out               any // nil: none
	query, parameter      string
	errors                string // statuses beside 200 and 401
}

// routes are all of them. Package worker answers them; a test holds the two
// together.
var routes = []route{
	{method: "get", path: "/v1/counters", summary: "What was served since the start.", out: Counters{}},
	{method: "get", path: "/v1/config", summary: "The behaviour in force.", out: Config{}},
	{method: "post", path: "/v1/config", summary: "Replaces the behaviour. The version must be the one in force.", in: Config{}, out: Config{}, errors: "400 409 413"},
	{method: "patch", path: "/v1/config", summary: "Merges a change into the behaviour (RFC 7396). It must name the version in force.", in: Config{}, out: Config{}, errors: "400 409 413"},
	{method: "post", path: "/v1/changes", summary: "Checks a new behaviour and keeps it waiting for its commit, so that many workers change at once or not at all.", in: Change{}, out: struct{}{}, errors: "400 409 413"},
	{method: "post", path: "/v1/changes/{id}/commit", summary: "Puts a waiting behaviour in force, at an instant.", in: Commit{}, out: Committed{}, parameter: "id", errors: "400 404 409"},
	{method: "delete", path: "/v1/changes/{id}", summary: "Forgets a waiting behaviour.", out: struct{}{}, parameter: "id", errors: "404"},
	{method: "get", path: "/v1/requests", summary: "The log of requests that had an x-request-id, in the order in which they ended.", out: Requests{}, query: "from", errors: "400"},
	{method: "get", path: "/v1/clock", summary: "The worker's time.", out: clock{}},
	{method: "get", path: "/openapi.json", summary: "This document.", out: map[string]any{}},
}

type clock struct {
	UnixNS int64 `json:"unix_ns"`
}

// OpenAPI describes the control server (OpenAPI 3.1).
func OpenAPI() map[string]any {
	schemas := map[string]any{}
	// schema files a type under its name and refers to it.
	schema := func(value any) any {
		name := reflect.TypeOf(value).Name()
		if name == "" {
			return map[string]any{"type": "object"}
		}
		s := (&jsonschema.Reflector{DoNotReference: true, Anonymous: true}).Reflect(value)
		s.Version = ""
		schemas[name] = s
		return map[string]any{"$ref": "#/components/schemas/" + name}
	}
	body := func(value any) map[string]any {
		return map[string]any{"application/json": map[string]any{"schema": schema(value)}}
	}
	problem := map[string]any{"description": "Refused; the answer says why.", "content": body(jsonhttp.Problem{})}
	paths := map[string]any{}
	for _, r := range routes {
		responses := map[string]any{"200": map[string]any{"description": "Done.", "content": body(r.out)}, "401": problem}
		for _, status := range strings.Fields(r.errors) {
			responses[status] = problem
		}
		operation := map[string]any{"summary": r.summary, "responses": responses}
		if r.in != nil {
			operation["requestBody"] = map[string]any{"required": true, "content": body(r.in)}
		}
		if r.parameter != "" {
			operation["parameters"] = []any{map[string]any{"name": r.parameter, "in": "path", "required": true, "schema": map[string]any{"type": "string"}}}
		}
		if r.query != "" {
			operation["parameters"] = []any{map[string]any{"name": r.query, "in": "query", "description": "Number of the first entry.", "schema": map[string]any{"type": "integer", "minimum": 0}}}
		}
		methods, _ := paths[r.path].(map[string]any)
		if methods == nil {
			methods = map[string]any{}
			paths[r.path] = methods
		}
		methods[r.method] = operation
	}
	return map[string]any{
		"openapi": "3.1.0",
		"info":    map[string]any{"title": "meshtrial worker", "version": "1", "description": "The behaviour of a worker and what it counted."},
		"paths":   paths,
		"components": map[string]any{
			"schemas":         schemas,
			"securitySchemes": map[string]any{"token": map[string]any{"type": "http", "scheme": "bearer"}},
		},
		"security": []any{map[string]any{"token": []any{}}, map[string]any{}},
	}
}
