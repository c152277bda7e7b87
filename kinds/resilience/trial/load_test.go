package trial

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	loadcontrol "github.com/meshtrial/meshtrial/drive/load/control"
	"github.com/meshtrial/meshtrial/internal/jsonhttp"
)

// A warm-up starts again while a gateway lacks its routes, and names any other cause at once.
func TestWarmUpWaitsForRoutes(t *testing.T) {
	starts := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if starts++; starts < 3 {
			jsonhttp.Refuse(w, http.StatusServiceUnavailable, errors.New("HTTP status 404 instead of a WebSocket"))
			return
		}
		jsonhttp.Refuse(w, http.StatusInternalServerError, errors.New("certificate expired"))
	}))
	defer server.Close()
	c := &clients{all: []*client{{resident: &resident{}, api: loadcontrol.NewClient(server.URL, server.Client())}}}
	if _, _, err := c.warm(t.Context(), sceneOf(t, "drain")); starts != 3 || err == nil || !strings.Contains(err.Error(), "certificate expired") {
		t.Errorf("started %d times: %v", starts, err)
	}
}
