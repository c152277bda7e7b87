package lab

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	k8stesting "k8s.io/client-go/testing"

	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
)

// Lists that take long are not asked for one after the other.
func TestWaitPodsOfLongLists(t *testing.T) {
	for _, c := range []struct {
		takes      time.Duration
		less, more int // lists in a minute
	}{{time.Millisecond, 590, 610}, {time.Second, 10, 13}} {
		synctest.Test(t, func(t *testing.T) {
			client, lists := fakecluster.New(), 0
			client.PrependReactor("list", "pods", func(k8stesting.Action) (bool, runtime.Object, error) {
				lists++
				time.Sleep(c.takes)
				return false, nil, nil
			})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := WaitPods(ctx, client, "ns", "app=load", 1); !errors.Is(err, context.DeadlineExceeded) || lists < c.less || lists > c.more {
				t.Errorf("lists that take %v: %d in a minute, %v", c.takes, lists, err)
			}
		})
	}
}
