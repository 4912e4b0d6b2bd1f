// Asks Faregate with the client that OpenAPI Generator makes: see "Other languages" in src/docs/clients.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"faregate"
)

const user = "grace"

func main() {
	pricing, err := os.Open(os.Args[1])
	check(err)
	configuration := faregate.NewConfiguration()
	configuration.Servers[0].URL = os.Getenv("FAREGATE_URL") + "/api/v1"
	client := faregate.NewAPIClient(configuration)
	key := faregate.APIKey{Key: os.Getenv("FAREGATE_KEY")}
	ctx := context.WithValue(context.Background(), faregate.ContextAPIKeys, map[string]faregate.APIKey{"apiKey": key})

	service, _, err := client.ServicesApi.CreateService(ctx).Pricing(pricing).Execute()
	check(err)
	services, _, err := client.ServicesApi.ListServices(ctx).Execute()
	check(err)
	fmt.Println("created", service.Name, "beside", len(services)-1)

	contact := faregate.NewContractToCreateUserContact(user, user)
	versions := map[string]string{"notes": "1.0.0"}
	order := faregate.NewContractToCreate(*contact, versions, map[string]string{"notes": "PRO"}, map[string]map[string]int64{})
	contract, _, err := client.ContractsApi.CreateContract(ctx).ContractToCreate(*order).Execute()
	check(err)
	fmt.Println("contracted", contract.UserContact.UserId, "to", contract.SubscriptionPlans["notes"])

	// A retry with the same key counts once.
	for range []int{1, 2} {
		use := map[string]interface{}{"notes-maxTasks": 150}
		answer, _, err := client.FeaturesApi.EvaluateFeature(ctx, user, "notes-board").
			IdempotencyKey("request-1").Strict(true).RequestBody(use).Execute()
		check(err)
		fmt.Println("granted", answer.Eval, "left", answer.Remaining["notes-maxTasks"])
	}
	use := map[string]interface{}{"notes-maxTasks": 51}
	denied, _, err := client.FeaturesApi.EvaluateFeature(ctx, user, "notes-board").Strict(true).RequestBody(use).Execute()
	check(err)
	fmt.Println("granted", denied.Eval, "left", denied.Remaining["notes-maxTasks"])

	features, _, err := client.FeaturesApi.EvaluateFeatures(ctx, user).Execute()
	check(err)
	fmt.Println("export", features["notes-export"])

	item := faregate.NewUsageItem(user, "notes-board", map[string]interface{}{"notes-maxTasks": 10}, "import-1")
	recorded, _, err := client.UsageApi.RecordUsage(ctx).UsageItem([]faregate.UsageItem{*item}).Execute()
	check(err)
	usage, _, err := client.UsageApi.GetContractUsage(ctx, user).Execute()
	check(err)
	fmt.Println("recorded", recorded.Counts.Counted, "total", usage.Totals[0].Counted)

	token, _, err := client.TokensApi.CreatePricingToken(ctx, user).Execute()
	check(err)
	verdict, _, err := client.TokensApi.VerifyToken(ctx).TokenToVerify(*faregate.NewTokenToVerify(token.PricingToken)).Execute()
	check(err)
	fmt.Println("token valid", verdict.Valid)

	_, answer, err := client.ContractsApi.ShowContract(ctx, "nobody").Execute()
	var failure faregate.GenericOpenAPIError
	if !errors.As(err, &failure) {
		log.Fatal("expected a failure of the server: ", err)
	}
	fmt.Println(answer.StatusCode, failure.Model().(faregate.Failure).Error)
}

func check(err error) {
	var failure faregate.GenericOpenAPIError
	if errors.As(err, &failure) {
		log.Fatal(err, " ", string(failure.Body()))
	}
	if err != nil {
		log.Fatal(err)
	}
}
