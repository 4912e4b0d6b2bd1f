-- Locks nothing that exists. Processes of the release before take the announcement for a loss of announcements, and read anew.
CREATE TABLE "token_keys" (
	"kid" text PRIMARY KEY NOT NULL,
	"position" bigint GENERATED ALWAYS AS IDENTITY (sequence name "token_keys_position_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"x" text NOT NULL,
	"private_sealed" text NOT NULL,
	"created_at" timestamp (3) with time zone NOT NULL,
	"signs_from" timestamp (3) with time zone NOT NULL,
	"published_until" timestamp (3) with time zone,
	CONSTRAINT "token_keys_position_unique" UNIQUE("position")
);
--> statement-breakpoint
CREATE TRIGGER token_keys_changed AFTER INSERT OR UPDATE OR DELETE ON token_keys
	FOR EACH STATEMENT EXECUTE FUNCTION faregate_announce('token-keys');
