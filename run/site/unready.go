package site

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/meshtrial/meshtrial/internal/ending"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/mesh"
)

// statusTime is how long the look at an object's status may take, once the wait for what is
// made of the object is over.
const statusTime = 10 * time.Second

// Unready adds to the error of a wait for a proxy why there is none, as far as the object
// says that it is made of, and what to look at.
func (s *Site) Unready(ctx context.Context, proxies mesh.Proxies, err error) error {
	if proxies.Of != nil && s.lab != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		ctx, cancel := ending.Within(ctx, statusTime)
		defer cancel()
		err = fmt.Errorf("%w; %s", err, s.statusOf(ctx, proxies))
	}
	if proxies.Hint != "" {
		err = errs.WithHint(err, "%s", proxies.Hint)
	}
	return err
}

// statusOf says in words what has become of the object that proxies are made of.
func (s *Site) statusOf(ctx context.Context, proxies mesh.Proxies) string {
	client, err := dynamic.NewForConfig(s.lab.RESTConfig())
	var object *unstructured.Unstructured
	if err == nil {
		object, err = client.Resource(proxies.Of.Resource).Namespace(proxies.Namespace).Get(ctx, proxies.Of.Name, metav1.GetOptions{})
	}
	if err != nil {
		return fmt.Sprintf("%s %s is not known: %v", proxies.Of.Resource.Resource, proxies.Of.Name, err)
	}
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	var said []string
	for _, one := range conditions {
		if c, ok := one.(map[string]any); ok {
			said = append(said, fmt.Sprintf("%v is %v (%v: %v)", c["type"], c["status"], c["reason"], c["message"]))
		}
	}
	if len(said) == 0 {
		said = []string{"nothing"}
	}
	return fmt.Sprintf("the status of %s %s says: %s", object.GetKind(), object.GetName(), strings.Join(said, ", "))
}
