;;; screenshots.el --- Pictures of the package in use  -*- lexical-binding: t; no-byte-compile: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; emacs-gtk -Q -l emacs/test/screenshots.el FOLDER
;;
;; On a graphical display (make screenshots: one without a screen), talks
;; with the real program, which plays a script, and writes what the frame
;; shows as PNG files into FOLDER.  EDN_BRIDGE_PROGRAM names the program.
;; Ends with status 0, or with 1 and a line that says what failed.

;;; Code:

(defconst screenshots-directory (file-name-directory load-file-name)
  "The folder of the tests.")

(push (expand-file-name ".." screenshots-directory) load-path)
(require 'edn-bridge)

(defconst screenshots-themes
  '(("light" . modus-operandi) ("dark" . modus-vivendi))
  "The themes, by what they are called in the names of the files.")

(defconst screenshots-source
  "\"\"\"Cutting text into lines.\"\"\"


def lines(text):
    \"\"\"Yield the lines of text, without their ends.\"\"\"
    line = \"\"
    for char in text:
        if char == \"\\n\":  # a newline ends a line
            yield line
            line = \"\"
        else:
            line += char
"
  "The file that the session is about.")

(defvar screenshots-target nil "Where the pictures go.")

(defun screenshots-wait (what condition)
  "Wait for CONDITION, a function; fail with WHAT if that takes too long."
  (let ((deadline (+ (float-time) 60)))
    (while (not (funcall condition))
      (when (> (float-time) deadline)
        (error "Waited in vain for %s" what))
      (accept-process-output nil 0.02))))

(defun screenshots-wait-for (regexp)
  "Wait until the current buffer has what REGEXP matches."
  (screenshots-wait regexp
                    (lambda ()
                      (save-excursion
                        (goto-char (point-min))
                        (re-search-forward regexp nil t)))))

(defun screenshots-say (text until)
  "Send TEXT in the current chat and wait until it shows what UNTIL matches."
  (goto-char (point-max))
  (insert text)
  (edn-bridge-input-send)
  (screenshots-wait-for until)
  (goto-char (point-max)))

(defun screenshots-take (name)
  "Write what the frame shows as NAME, in every theme."
  (edn-bridge-markdown-fontify-blocks)
  (pcase-dolist (`(,suffix . ,theme) screenshots-themes)
    (mapc #'disable-theme custom-enabled-themes)
    (load-theme theme t)
    (message nil)
    (redisplay t)
    (let ((coding-system-for-write 'binary))
      (write-region (x-export-frames nil 'png) nil
                    (expand-file-name (format "%s-%s.png" name suffix)
                                      screenshots-target)
                    nil 'quiet))))

(defun screenshots-chat (folder)
  "Open a chat in FOLDER and show it alone in the frame."
  (let ((default-directory folder))
    (switch-to-buffer (edn-bridge-chat-buffer))
    (delete-other-windows)
    (screenshots-wait "the session"
                      (lambda () edn-bridge-chat--footer))))

(defun screenshots-idle ()
  "Wait for the end of the turn."
  (screenshots-wait "the end of the turn"
                    (lambda () (not (edn-bridge-chat-running-p)))))

(defun screenshots-all (folder)
  "Take all pictures, of sessions in FOLDER."
  (screenshots-chat folder)
  (screenshots-say "Why does the last line get lost when a file has no newline at its end?"
                   "changes nothing else")
  (screenshots-idle)
  (edn-bridge-sessions-rename "Lost last line")
  (insert "Please do the first, and ")
  (screenshots-wait "the name"
                    (lambda () (equal (edn-bridge-chat-get :session-name)
                                      "Lost last line")))
  (screenshots-take "chat")
  (edn-bridge-transcript-set-draft "")
  (screenshots-say "Please mend it by the first way." "\\[Allow once")
  (edn-bridge-interact-next)
  (screenshots-take "approval")
  (edn-bridge-interact-accept)
  (screenshots-wait-for "keeps its last line")
  (screenshots-idle)
  (let ((chat (current-buffer)))
    (find-file (expand-file-name "lines.py" folder))
    (edn-bridge-toggle)
    (screenshots-take "side")
    (edn-bridge-toggle)
    (switch-to-buffer chat)
    (delete-other-windows))
  (let ((first edn-bridge-chat--session-id))
    (dolist (name '("By splitlines" "Review"))
      (goto-char (point-min))
      (search-forward "first")
      (if (equal name "Review")
          (edn-bridge-sessions-new)
        (edn-bridge-sessions-fork
         (get-text-property (point) 'edn-bridge-entry)))
      (screenshots-wait "the new session"
                        (lambda ()
                          (not (member (edn-bridge-chat-get :session-name)
                                       '("Lost last line" "By splitlines")))))
      (edn-bridge-sessions-rename name)
      (screenshots-wait "its name"
                        (lambda ()
                          (equal (edn-bridge-chat-get :session-name) name)))
      (edn-bridge-sessions-switch first)
      (screenshots-wait-for "keeps its last line")))
  (goto-char (point-max))
  (split-window nil 22)
  (edn-bridge-tree)
  (screenshots-wait-for "Review")
  (goto-char (point-min))
  (screenshots-take "tree")
  (switch-to-buffer (car (edn-bridge-chat-buffers)))
  (delete-other-windows)
  (edn-bridge-query)
  (delete-other-windows)
  (erase-buffer)
  (insert ";; What the session has used, and what was said.\n"
          "[:psi.agent-session/session-name\n"
          " :psi.agent-session/usage-input\n"
          " :psi.agent-session/usage-output\n"
          " {:psi.agent-session/messages [:psi.message/role :psi.message/timestamp]}]\n")
  (goto-char (point-max))
  (split-window nil 9)
  (apply #'edn-bridge-query-send (edn-bridge-query--form))
  (with-current-buffer "*edn-bridge result*"
    (screenshots-wait-for "usage-output"))
  (screenshots-take "query"))

(defun screenshots-servers (folder peers state)
  "Take the picture of MCP servers, of a session in FOLDER.
PEERS is the folder of the servers that npm has; STATE that of the program."
  (let ((config (expand-file-name "config.edn" state)))
    (make-directory folder)
    ;; So that npx finds them.
    (make-symbolic-link (expand-file-name "node_modules" peers)
                        (expand-file-name "node_modules" folder))
    (write-region "# Sowing\n\nBroad beans: last week of February. Peas: two weeks later.\n"
                  nil (expand-file-name "sowing.md" folder) nil 'quiet)
    (write-region
     (concat "{:mcp {\"notes\" {:command [\"npx\" \"mcp-server-filesystem\" \".\"]}"
             " \"everything\" {:command [\"npx\" \"mcp-server-everything\"]}}}\n")
     nil config nil 'quiet)
    (setq edn-bridge-program-args
          (list "--state-dir" state "--provider" "scripted" "--mode" "accept-edits"
                "--config" config "--script"
                (expand-file-name "scripts/servers.edn"
                                  screenshots-directory))))
  (screenshots-chat folder)
  (screenshots-say "What do I sow first?" "two weeks later")
  (screenshots-idle)
  (split-window nil 15)
  (edn-bridge-mcp)
  (screenshots-wait-for "notes  ready")
  (goto-char (point-min))
  (search-forward "notes  ready")
  (edn-bridge-mcp-fold)
  (search-forward "write_file")
  (edn-bridge-mcp-toggle)
  (screenshots-wait-for "\\[ \\] write_file")
  (screenshots-take "servers"))

(defun screenshots-agent (folder state)
  "Take the picture of an external agent, of a session in FOLDER.
It is the scripted agent of the tests, and says so.  STATE is the folder of
the program."
  (let ((config (expand-file-name "agents.edn" state))
        (tests (expand-file-name "../../tests/agents/" screenshots-directory)))
    (make-directory folder)
    (write-region "# Sowing\n\nBroad beans: last week of February.\n"
                  nil (expand-file-name "sowing.md" folder) nil 'quiet)
    (write-region
     (format "{:agents {\"scripted\" {:command [\"python3\" %S] :env {\"STARTED\" \"/dev/null\" \"AGENT_PLAY\" %S}}}}\n"
             (expand-file-name "agent.py" tests)
             (expand-file-name "scripts/agent.txt" screenshots-directory))
     nil config nil 'quiet)
    (setq edn-bridge-program-args
          (list "--state-dir" state "--provider" "scripted" "--config" config
                "--script" (expand-file-name "scripts/servers.edn"
                                             screenshots-directory))))
  (screenshots-chat folder)
  (edn-bridge-agents-new "scripted")
  (screenshots-wait "the agent" #'edn-bridge-agents-here)
  (edn-bridge-sessions-rename "Peas")
  (screenshots-wait "the name"
                    (lambda () (equal (edn-bridge-chat-get :session-name)
                                      "Peas")))
  (screenshots-say "Peas come two weeks after the beans.  Please put them on the list."
                   "\\[Allow once")
  (edn-bridge-interact-next)
  (screenshots-take "agent")
  (edn-bridge-interact-accept)
  (screenshots-idle))

(defun screenshots ()
  "Take all pictures and end Emacs."
  (setq screenshots-target (expand-file-name (pop command-line-args-left)))
  (make-directory screenshots-target t)
  (setq inhibit-startup-screen t
        ring-bell-function #'ignore
        frame-title-format "edn-bridge"
        edn-bridge-program (getenv "EDN_BRIDGE_PROGRAM"))
  (menu-bar-mode -1)
  (tool-bar-mode -1)
  (scroll-bar-mode -1)
  (blink-cursor-mode -1)
  (tooltip-mode -1)
  (set-frame-font "DejaVu Sans Mono 10" nil t)
  (set-frame-size nil 92 42)
  (let* ((state (make-temp-file "edn-bridge-state" t))
         (parent (make-temp-file "edn-bridge-shots" t))
         (folder (file-name-as-directory (expand-file-name "lines" parent)))
         (failure nil))
    (make-directory folder)
    (write-region screenshots-source nil
                  (expand-file-name "lines.py" folder) nil 'quiet)
    (setq edn-bridge-program-args
          (list "--state-dir" state "--provider" "scripted" "--script"
                (expand-file-name "scripts/screenshots.edn"
                                  screenshots-directory)))
    (condition-case err
        (progn
          (screenshots-all folder)
          (screenshots-agent
           (file-name-as-directory (expand-file-name "beds" parent)) state)
          (if-let ((peers (getenv "EDN_BRIDGE_MCP_PEERS"))
                   ((file-directory-p (expand-file-name "node_modules" peers))))
              (screenshots-servers
               (file-name-as-directory (expand-file-name "garden" parent))
               peers state)
            (princ "screenshots: without MCP servers\n"
                   #'external-debugging-output)))
      (error (setq failure (error-message-string err))))
    (mapc (lambda (buffer)
            (let ((conn (buffer-local-value 'edn-bridge-chat--conn buffer)))
              (kill-buffer buffer)
              (screenshots-wait
               "the program's end"
               (lambda ()
                 (not (process-live-p
                       (edn-bridge-rpc-connection-process conn)))))))
          (edn-bridge-chat-buffers))
    (delete-directory state t)
    (delete-directory parent t)
    (when failure
      (princ (format "screenshots: %s\n" failure) #'external-debugging-output))
    (kill-emacs (if failure 1 0))))

(screenshots)

;;; screenshots.el ends here
