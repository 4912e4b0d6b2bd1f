export const metadata = { title: "Tasker", icons: "data:," };

export default function Layout({ children }) {
  return (
    <html lang="en">
      <body>{children}</body>
    </html>
  );
}
