import type { JSX, ReactNode } from "react";

/*
 * Declarations for space-react-client 0.3.2: those that the package ships are not valid TypeScript.
 */

export interface SpaceClient {
  on(event: string, callback: (data: unknown) => void): void;
  setUserId(userId: string): Promise<void>;
  disconnectWebSocket(): void;
}
export declare function SpaceProvider(props: {
  config: { url: string; apiKey: string; allowConnectionWithSpace: boolean };
  children: ReactNode;
}): JSX.Element;
export declare function useSpaceClient(): SpaceClient;
export declare function Feature(props: { id: string; children?: ReactNode }): JSX.Element;
export declare function On(props: { children?: ReactNode }): JSX.Element;
export declare function Default(props: { children?: ReactNode }): JSX.Element;
export declare function Loading(props: { children?: ReactNode }): JSX.Element;
export declare function ErrorFallback(props: { children?: ReactNode }): JSX.Element;
