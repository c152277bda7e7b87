//go:build verify

package runner_test

import "testing"

// TestModes covers the levels of every factor that affects what passes between the pods,
// or how.
func TestModes(t *testing.T) {
	b := newBench(t)
	for name, text := range map[string]string{
		"protocols": `
settings: {sidecars: both, rate: 100, connections: 4, payload: 100B}
factors: {protocol: [http1, http2, grpc, tcp], keep_alive: [true, false]}
`,
		"streams": `
settings: {rate: 100, connections: 4, payload: 100B}
factors: {protocol: [websocket, grpc-stream], sidecars: [none, client, server, both, gateway]}
`,
		"tls": `
settings: {sidecars: both, rate: 50, connections: 4, payload: 100B}
factors: {protocol: [http1, http2, grpc, tcp], keep_alive: [true, false]}
load: {tls: true}
`,
		"mtls": `
settings: {rate: 100, connections: 4}
factors: {mtls: [strict, permissive, off], sidecars: [client, server, both]}
exclude: [{mtls: strict, sidecars: server}]
`,
		"proxies": `
settings: {sidecars: both, rate: 100, connections: 4, concurrency: 1, cpu_limit: 500m, envoy: ` + otherEnvoy + `}
factors: {telemetry: [off, access-log-text, access-log-json, access-log-text+stats, access-log-json+stats]}
`,
	} {
		t.Run(name, func(t *testing.T) { b.measure(t, name, text+"\nblocks: {min: 1, max: 1, limit: 20m}\n", 1) })
	}
	b.gone(t)
}
