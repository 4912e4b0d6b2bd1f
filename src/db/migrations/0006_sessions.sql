-- Sessions of people, their identities at a provider, and proofs that count once. Locks `users` for the time of two columns.
CREATE TABLE "sessions" (
	"id" text PRIMARY KEY NOT NULL,
	"user_id" text NOT NULL,
	"token_hash" text NOT NULL,
	"via" text NOT NULL,
	"created_at" timestamp (3) with time zone NOT NULL,
	"last_used_at" timestamp (3) with time zone NOT NULL,
	"address" text NOT NULL,
	"agent" text NOT NULL,
	"issuer" text,
	"subject" text,
	"provider_session" text,
	CONSTRAINT "sessions_token_hash_unique" UNIQUE("token_hash"),
	CONSTRAINT "sessions_via_known" CHECK ("sessions"."via" in ('password', 'oidc'))
);
--> statement-breakpoint
CREATE TABLE "used_proofs" (
	"proof_hash" text PRIMARY KEY NOT NULL,
	"expires_at" timestamp (3) with time zone NOT NULL
);
--> statement-breakpoint
CREATE TABLE "user_identities" (
	"issuer" text NOT NULL,
	"subject" text NOT NULL,
	"user_id" text NOT NULL,
	"created_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "user_identities_pk" PRIMARY KEY("issuer","subject")
);
--> statement-breakpoint
ALTER TABLE "users" ADD COLUMN IF NOT EXISTS "email" text;--> statement-breakpoint
ALTER TABLE "users" ADD COLUMN "via" text;--> statement-breakpoint
ALTER TABLE "sessions" ADD CONSTRAINT "sessions_user_fk" FOREIGN KEY ("user_id") REFERENCES "public"."users"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "user_identities" ADD CONSTRAINT "user_identities_user_fk" FOREIGN KEY ("user_id") REFERENCES "public"."users"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "sessions_user_idx" ON "sessions" USING btree ("user_id","id");--> statement-breakpoint
CREATE INDEX "sessions_created_idx" ON "sessions" USING btree ("created_at");--> statement-breakpoint
CREATE INDEX "sessions_subject_idx" ON "sessions" USING btree ("issuer","subject");--> statement-breakpoint
CREATE INDEX "used_proofs_expires_idx" ON "used_proofs" USING btree ("expires_at");--> statement-breakpoint
CREATE INDEX "user_identities_user_idx" ON "user_identities" USING btree ("user_id");--> statement-breakpoint
ALTER TABLE "users" ADD CONSTRAINT "users_via_known" CHECK ("users"."via" = 'oidc');
--> statement-breakpoint
-- A session that ended in one process is refused in the others. Processes of the release before drop all that they have cached.
CREATE TRIGGER sessions_deleted AFTER DELETE ON sessions
	FOR EACH STATEMENT EXECUTE FUNCTION faregate_announce('sessions');
--> statement-breakpoint
CREATE TRIGGER sessions_renewed AFTER UPDATE OF token_hash ON sessions
	FOR EACH STATEMENT EXECUTE FUNCTION faregate_announce('sessions');
