package app

import (
	"testing"

	"github.com/meshtrial/meshtrial/internal/errs"
)

func TestGatewayOf(t *testing.T) {
	for text, want := range map[string]string{
		"ingressgateway": "ingressgateway", "http://10.0.0.1:8080": "http://10.0.0.1:8080", "https://gate.example/": "https://gate.example/",
		"10.0.0.1:8080": "http://10.0.0.1:8080", "gate.example:80": "http://gate.example:80", "[::1]:80": "http://[::1]:80", "gate.example/path": "http://gate.example/path",
		"http://": "", "://x": "", "/path": "", "a:b:c": "",
	} {
		got, err := gatewayOf(text)
		if got != want || (err != nil) != (want == "") || err != nil && errs.Code(err) != errs.CodeUsage {
			t.Errorf("%s: %q, %v", text, got, err)
		}
	}
}
