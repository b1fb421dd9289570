;;; edn-bridge-parts-tests.el --- Tests of what hangs on the chat  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Code:

(require 'edn-bridge-test-support)

;;;; Markdown

(defun edn-bridge-parts-tests-faces (text)
  "Return the runs of TEXT that have a face, with it."
  (with-temp-buffer
    (insert text)
    (edn-bridge-markdown-region (point-min) (point-max))
    (let ((runs nil)
          (place (point-min)))
      (while (< place (point-max))
        (let ((next (next-single-property-change place 'face nil (point-max)))
              (face (get-text-property place 'face)))
          (when face
            (push (list (buffer-substring-no-properties place next) face) runs))
          (setq place next)))
      (nreverse runs))))

(ert-deftest edn-bridge-markdown-puts-faces ()
  (pcase-dolist
      (`(,text ,runs)
       '(("plain" nil)
         ("a **b** c" (("**b**" edn-bridge-markdown-bold)))
         ("a *b* `c*d*`" (("*b*" edn-bridge-markdown-italic)
                          ("`c*d*`" edn-bridge-markdown-code)))
         ("2 * 3 * 4, snake_case_name" nil)
         ("# Title\nx" (("# Title" edn-bridge-markdown-heading)))
         ("- one\n" (("- " edn-bridge-markdown-markup)))
         ("see https://a.b/c?d." (("https://a.b/c?d." edn-bridge-markdown-link)))
         ("```\n**x**\n```\n**y**"
          (("```" edn-bridge-markdown-markup)
           ("**x**\n" edn-bridge-markdown-block)
           ("```" edn-bridge-markdown-markup)
           ("**y**" edn-bridge-markdown-bold)))
         ("````\n```\n````\n"
          (("````" edn-bridge-markdown-markup)
           ("```\n" edn-bridge-markdown-block)
           ("````" edn-bridge-markdown-markup)))))
    (ert-info (text :prefix "text: ")
      (should (equal (edn-bridge-parts-tests-faces text) runs)))))

(ert-deftest edn-bridge-markdown-looks-alike-however-it-is-split ()
  (let* ((text "# T\nSome **bold** and `code`.\n- *x*\n\n```el\n(a \"b\")\n```\nEnd **b**\n")
         (whole (edn-bridge-parts-tests-faces text)))
    (dolist (size '(1 2 3 5 8 13))
      (with-temp-buffer
        (let ((state (edn-bridge-markdown-begin (point-min)))
              (start 0))
          (while (< start (length text))
            (let ((from (point-max)))
              (goto-char from)
              (insert (substring text start (min (length text) (+ start size))))
              (edn-bridge-markdown-feed state from (point-max)))
            (setq start (+ start size)))
          (edn-bridge-markdown-finish state (point-max)))
        (let ((place (point-min))
              (runs nil))
          (while (< place (point-max))
            (let ((next (next-single-property-change place 'face nil
                                                     (point-max)))
                  (face (get-text-property place 'face)))
              (when face
                (push (list (buffer-substring-no-properties place next) face)
                      runs))
              (setq place next)))
          (should (equal (nreverse runs) whole)))))))

(ert-deftest edn-bridge-markdown-gives-code-the-faces-of-its-mode ()
  (with-temp-buffer
    (insert "```el\n(defun f () \"x\")\n```\n")
    (edn-bridge-markdown-region (point-min) (point-max))
    (edn-bridge-markdown-fontify-blocks)
    (goto-char (point-min))
    (search-forward "defun")
    (should (memq 'font-lock-keyword-face
                  (ensure-list (get-text-property (1- (point)) 'face))))
    (should-not edn-bridge-markdown--buffers)))

;;;; Tools

(defun edn-bridge-parts-tests-call (conn)
  "Have CONN receive a tool call and its result."
  (edn-bridge-test-event conn "tool/start" :session-id "s1" :tool-id "c1"
                         :tool-name "bash" :call-summary "ls -la")
  (edn-bridge-test-event conn "tool/executing" :session-id "s1" :tool-id "c1"
                         :tool-name "bash" :call-summary "ls -la")
  (edn-bridge-test-event conn "tool/result" :session-id "s1" :tool-id "c1"
                         :tool-name "bash" :call-summary "ls -la"
                         :content [] :is-error :false
                         :result-text "src/main.rs:12:5: found\nmore"))

(ert-deftest edn-bridge-tools-shows-a-call-in-a-line ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-test-event conn "assistant/delta" :session-id "s1" :text "Look:")
    (edn-bridge-parts-tests-call conn)
    (edn-bridge-test-event conn "assistant/delta" :session-id "s1" :text "Done")
    (should (equal (edn-bridge-test-transcript)
                   (concat "Assistant\nLook:\n\n▸ bash     ls -la done\n\n"
                           "Assistant\nDone")))
    (should-not (edn-bridge-tools--call-marker (edn-bridge-tools--get "c1")))))

(ert-deftest edn-bridge-tools-holds-output-back-until-it-is-unfolded ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-parts-tests-call conn)
    (should-not (string-search "found" (edn-bridge-test-transcript)))
    (let ((folded (edn-bridge-test-transcript)))
      (goto-char (point-max))
      (edn-bridge-tools-toggle)
      (should (equal (edn-bridge-test-transcript)
                     (concat "▾ bash     ls -la done\n"
                             "src/main.rs:12:5: found\nmore\n")))
      (goto-char (point-min))
      (edn-bridge-tools-toggle)
      (should (equal (edn-bridge-test-transcript) folded))
      (should (= (point) (point-min))))
    (should-error (insert "x") :type 'text-read-only)))

(ert-deftest edn-bridge-tools-updates-while-unfolded ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-transcript-set-draft "draft")
    (edn-bridge-test-event conn "tool/executing" :session-id "s1" :tool-id "c1"
                           :tool-name "bash" :call-summary "make")
    (edn-bridge-tools-toggle)
    (dolist (text '("one\n" "one\ntwo\n"))
      (edn-bridge-test-event conn "tool/update" :session-id "s1" :tool-id "c1"
                             :tool-name "bash" :call-summary "make"
                             :is-error :false :result-text text))
    (should (equal (edn-bridge-test-transcript)
                   "▾ bash     make running\none\ntwo\n"))
    (should (equal (edn-bridge-transcript-draft) "draft"))))

(ert-deftest edn-bridge-tools-shows-edits-as-diffs ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-test-event conn "tool/result" :session-id "s1" :tool-id "c1"
                           :tool-name "edit" :call-summary "a.txt"
                           :is-error :false :result-text "ok"
                           :details '(:diff "--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n"))
    (goto-char (point-min))
    (search-forward "+y")
    (should (memq 'diff-added
                  (ensure-list (get-text-property (1- (point)) 'face))))))

(ert-deftest edn-bridge-tools-shows-long-outputs-and-diffs-by-a-button ()
  (edn-bridge-test-with-chat (conn _sent)
    (let ((edn-bridge-tools-output-limit 10))
      (edn-bridge-test-event conn "tool/result" :session-id "s1" :tool-id "c1"
                             :tool-name "bash" :call-summary "x"
                             :is-error :false :result-text "0123456789abcdef")
      (edn-bridge-tools-toggle)
      (should (string-match-p "^0123456789\n\\[6 more characters\\]"
                              (edn-bridge-test-transcript)))
      (save-window-excursion
        (edn-bridge-parts-tests-push "6 more")
        (with-current-buffer (window-buffer)
          (should (equal (buffer-string) "0123456789abcdef"))
          (kill-buffer)))))
  (edn-bridge-test-with-chat (conn _sent)
    (let ((diff (concat "--- a\n+++ b\n@@ -1 +1 @@\n"
                        (mapconcat #'identity (make-list 20000 "+new\n") ""))))
      (edn-bridge-parts-tests-ask conn "approve"
                                  (list :tool "edit" :tool-id "c1" :diff diff))
      (should (< (buffer-size) 70000))
      (save-window-excursion
        (edn-bridge-parts-tests-push "The whole diff")
        (with-current-buffer (window-buffer)
          (should (derived-mode-p 'diff-mode))
          (should (= (buffer-size) (length diff)))
          (kill-buffer))))))

(ert-deftest edn-bridge-tools-follows-places ()
  (edn-bridge-test-with-chat (conn _sent)
    (let* ((folder (make-temp-file "edn-bridge" t))
           (default-directory (file-name-as-directory folder)))
      (unwind-protect
          (progn
            (make-directory "src")
            (write-region "1\n2\n3\n" nil "src/main.rs" nil 'quiet)
            (edn-bridge-test-event
             conn "tool/result" :session-id "s1" :tool-id "c1" :tool-name "bash"
             :call-summary "x" :is-error :false
             :result-text "see (src/main.rs:3) there\n")
            (edn-bridge-tools-toggle)
            (goto-char (point-min))
            (search-forward "main")
            (save-window-excursion
              (edn-bridge-tools-follow)
              (should (equal (line-number-at-pos) 3))
              (should (looking-at-p "3"))
              (kill-buffer)))
        (delete-directory folder t)))))

(ert-deftest edn-bridge-tools-shows-calls-of-the-journal ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-test-event
     conn "session/rehydrated" :session-id "s1"
     :messages
     [(:id "e1" :role "assistant"
           :content [(:type :tool-call :id "c1" :name "bash"
                            :arguments (:command "ls -la"))
                     (:type :tool-call :id "c2" :name "read"
                            :arguments (:path "a.txt"))])
      (:id "e2" :role "tool" :tool-call-id "c1" :tool-name "bash"
           :is-error :false :content [(:type :text :text "out 1")])
      (:id "e3" :role "tool" :tool-call-id "c2" :tool-name "read"
           :is-error t :content [(:type :text :text "out 2")])])
    (should (equal (edn-bridge-test-transcript)
                   "▸ bash     ls -la done\n▸ read     a.txt failed\n"))
    (goto-char (point-min))
    (edn-bridge-tools-toggle)
    (should (string-match-p "out 1" (edn-bridge-test-transcript)))))

(ert-deftest edn-bridge-tools-shows-a-call-whose-result-is-on-a-later-page ()
  (edn-bridge-test-with-chat (conn sent)
    (edn-bridge-test-event
     conn "session/rehydrated" :session-id "s1" :more t
     :messages [(:id "e2" :role "tool" :tool-call-id "c1" :tool-name "bash"
                     :is-error :false :content [(:type :text :text "out")])
                (:id "e3" :role "user" :content [(:type :text :text "Hi")])]
     :tool-calls '(:c1 (:tool-id "c1" :tool-name "bash" :call-summary "bash"
                        :is-error :false :result-text "out")))
    (edn-bridge-messages-show-earlier)
    (edn-bridge-test-answer
     conn sent "get_messages" :more :false
     :messages [(:id "e1" :role "assistant"
                     :content [(:type :tool-call :id "c1" :name "bash"
                                      :arguments (:command "ls -la"))])])
    (should (equal (edn-bridge-test-transcript)
                   "▸ bash     ls -la done\n\nYou\nHi\n"))))

(ert-deftest edn-bridge-tools-shows-a-call-in-its-place-in-any-window ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-transcript-set-draft "draft")
    (save-window-excursion
      (let ((other (split-window)))
        (set-window-buffer other (current-buffer))
        (set-window-point other (point-max))
        (edn-bridge-parts-tests-call conn)))
    (should (equal (edn-bridge-test-transcript) "▸ bash     ls -la done\n"))
    (should (equal (edn-bridge-transcript-draft) "draft"))))

(ert-deftest edn-bridge-tools-takes-an-id-that-is-used-again-as-a-new-call ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-parts-tests-call conn)
    (edn-bridge-test-event conn "tool/start" :session-id "s1" :tool-id "c1"
                           :tool-name "bash" :call-summary "pwd")
    (should (equal (edn-bridge-test-transcript)
                   "▸ bash     ls -la done\n▸ bash     pwd …\n"))))

;;;; Questions

(defun edn-bridge-parts-tests-ask (conn kind payload &rest more)
  "Have CONN receive a question of KIND with PAYLOAD and MORE."
  (apply #'edn-bridge-test-event conn "interaction/requested"
         :interaction-id "i1" :kind kind :correlation-id "t1"
         :session-id "s1" :payload payload more))

(defun edn-bridge-parts-tests-push (label)
  "Push the button whose label begins with LABEL."
  (goto-char (point-min))
  (search-forward (concat "[" label))
  (push-button (1- (point))))

(defconst edn-bridge-parts-tests-questions
  '(("approve" (:tool "bash" :tool-id "c1" :call-summary "rm x"
                      :command "rm x" :suggested-rule "bash rm")
     "Allow once" (:outcome "approve" :scope "once"))
    ("approve" (:tool "bash" :tool-id "c1" :call-summary "rm x"
                      :command "rm x" :suggested-rule "bash rm")
     "Allow for this" (:outcome "approve" :scope "session"))
    ("approve" (:tool "bash" :tool-id "c1" :call-summary "rm x"
                      :command "rm x" :suggested-rule "bash rm")
     "Allow always" (:outcome "approve" :scope "rule" :rule "bash rm"))
    ("confirm" (:prompt "Sure?" :default t :danger t) "Yes" (:ok t))
    ("confirm" (:prompt "Sure?" :default :false) "No" (:ok :false))
    ("select" (:prompt "Which?" :options [(:label "A" :value 1)
                                          (:label "B" :value 2)])
     "B" (:index 1))
    ("auth.device-code" (:provider "p" :url "https://a" :code "XY"
                                   :expires-at "later")
     "Done" (:done t))
    ("grant-stage-tool" (:stage-execution-id "x" :attempt 0 :proposal-id "p"
                                             :tool "bash" :args-digest "d"
                                             :args-summary "ls")
     "Grant" (:outcome "approve"))
    ("grant-stage-tool" (:stage-execution-id "x" :attempt 0 :proposal-id "p"
                                             :tool "bash" :args-digest "d"
                                             :args-summary "ls")
     "Later" (:outcome "defer"))
    ("approve-subagent-envelope" (:subagent-id "sub" :depth 1
                                               :prompt-summary "Do it")
     "Start" (:outcome "approve")))
  "Kinds of questions, payloads, buttons and the values that they answer.")

(ert-deftest edn-bridge-interact-answers-by-buttons ()
  (pcase-dolist (`(,kind ,payload ,button ,value)
                 edn-bridge-parts-tests-questions)
    (edn-bridge-test-with-chat (conn sent)
      (edn-bridge-parts-tests-ask conn kind payload)
      (should (= 1 (edn-bridge-interact-pending)))
      (edn-bridge-parts-tests-push button)
      (ert-info ((format "%s: %s" kind button))
        (should (equal (plist-get (car sent) :op) "interaction_respond"))
        (should (equal (plist-get (car sent) :params)
                       (list :interaction-id "i1" :status "accepted"
                             :value value))))
      (edn-bridge-test-event conn "interaction/answered"
                             :interaction-id "i1" :correlation-id "t1"
                             :status "accepted" :ext-id "emacs")
      ;; Whose answer that was the response says.
      (should (= 1 (edn-bridge-interact-pending)))
      (edn-bridge-test-answer conn sent "interaction_respond" :accepted t)
      (should (zerop (edn-bridge-interact-pending)))
      (should-not (string-match-p "\\[Cancel\\]" (edn-bridge-test-transcript)))
      (should (string-match-p (concat "→ " button)
                              (edn-bridge-test-transcript))))))

(ert-deftest edn-bridge-interact-shows-that-a-question-was-settled-elsewhere ()
  (edn-bridge-test-with-chat (conn sent)
    (edn-bridge-parts-tests-ask conn "confirm" '(:prompt "Sure?"))
    (edn-bridge-test-event conn "interaction/answered"
                           :interaction-id "i1" :correlation-id "t1"
                           :status "accepted" :ext-id "other")
    (should-not sent)
    (should (zerop (edn-bridge-interact-pending)))
    ;; Its keys must not answer the next question.
    (goto-char (point-min))
    (search-forward "Sure")
    (should-not (get-char-property (point) 'keymap))
    (should (string-match-p "→ accepted" (edn-bridge-test-transcript)))))

(ert-deftest edn-bridge-interact-answers-by-the-minibuffer-once-asked-to ()
  (pcase-dolist
      (`(,kind ,payload ,button ,typed ,params)
       '(("approve" (:tool "bash" :command "rm x") "Reject" "too risky"
          (:value (:outcome "deny") :note "too risky"))
         ("ask" (:prompt "Name?") "Answer]" "Ada" (:value (:text "Ada")))
         ("auth.password" (:prompt "Key") "Enter" "s3cret"
          (:value (:secret "s3cret")))))
    (edn-bridge-test-with-chat (conn sent)
      (let ((given nil))
        (cl-letf (((symbol-function 'read-string) (lambda (&rest _) typed))
                  ((symbol-function 'read-passwd)
                   (lambda (&rest _) (copy-sequence typed)))
                  ;; The secret is cleared once it is sent.
                  ((symbol-function 'edn-bridge-rpc--send)
                   (lambda (_conn frame)
                     (setq given (edn-bridge-edn-print-string
                                  (plist-get frame :params))))))
          (edn-bridge-parts-tests-ask conn kind payload)
          (should-not given)
          (edn-bridge-parts-tests-push button))
        (ignore sent)
        (should (equal given
                       (edn-bridge-edn-print-string
                        (append '(:interaction-id "i1" :status "accepted")
                                params))))))))

(ert-deftest edn-bridge-interact-says-when-another-answered-first ()
  (edn-bridge-test-with-chat (conn sent)
    (edn-bridge-parts-tests-ask conn "confirm" '(:prompt "Sure?"))
    (edn-bridge-interact-accept)
    (edn-bridge-rpc--dispatch-frame
     conn (list :kind :error :id (plist-get (car sent) :id)
                :op "interaction_respond"
                :error-code "request/interaction-already-answered"
                :error-message "Answered"))
    (should (string-match-p "answered elsewhere" (edn-bridge-test-transcript)))
    (should (zerop (edn-bridge-interact-pending)))
    (should-error (edn-bridge-interact-accept) :type 'user-error)))

(ert-deftest edn-bridge-interact-shows-who-asks-and-what-it-does-not-know ()
  (edn-bridge-test-with-chat (conn sent)
    (edn-bridge-parts-tests-ask conn "kind.of-the-future" '(:fact "one")
                                :subagent-id "scout")
    (should (string-match-p "\\[subagent scout\\]" (edn-bridge-test-transcript)))
    (should (string-match-p "fact one" (edn-bridge-test-transcript)))
    (edn-bridge-parts-tests-push "Cancel")
    (should (equal (plist-get (car sent) :params)
                   '(:interaction-id "i1" :status "cancelled")))))

(ert-deftest edn-bridge-interact-keeps-questions-when-the-transcript-is-rebuilt ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-parts-tests-ask conn "confirm" '(:prompt "Sure?"))
    (edn-bridge-test-event conn "session/rehydrated" :session-id "s1"
                           :messages [])
    (should (string-match-p "Sure\\?\n.*\\[No" (edn-bridge-test-transcript)))
    (should (= 1 (edn-bridge-interact-pending)))))

(ert-deftest edn-bridge-interact-answers-dialogs ()
  (pcase-dolist
      (`(,data ,button ,result)
       '(((:kind "confirm" :title "Sure?") "Yes" t)
         ((:kind :confirm :title "Sure?") "No" :false)
         ((:kind "select" :title "Which?"
                 :options [(:value "a" :label "A") (:value "b" :label "B")])
          "B" "b")))
    (edn-bridge-test-with-chat (conn sent)
      (apply #'edn-bridge-test-event conn "ui/dialog-requested"
             :dialog-id "d1" data)
      (edn-bridge-parts-tests-push button)
      (should (equal (plist-get (car sent) :op) "resolve_dialog"))
      (should (equal (plist-get (car sent) :params)
                     (list :dialog-id "d1" :result result))))))

(defun edn-bridge-parts-tests-prompts (function)
  "Call FUNCTION and return the prompts of what it reads."
  (let ((prompts nil))
    (cl-letf (((symbol-function 'read-string)
               (lambda (prompt &rest _) (push prompt prompts) "x"))
              ((symbol-function 'read-passwd)
               (lambda (prompt &rest _) (push prompt prompts)
                 (copy-sequence "x")))
              ((symbol-function 'completing-read)
               (lambda (prompt table &rest _) (push prompt prompts)
                 (car (all-completions "" table))))
              ((symbol-function 'completing-read-multiple)
               (lambda (prompt table &rest _) (push prompt prompts)
                 (list (car (all-completions "" table))))))
      (funcall function))
    prompts))

(ert-deftest edn-bridge-interact-says-of-which-subagent-every-question-is ()
  (let ((asked nil))
    (pcase-dolist
        (`(,kind ,payload ,button)
         '(("ask" (:prompt "Name?") "Answer]")
           ("confirm" (:prompt "Sure?") nil)
           ("select" (:prompt "Which?" :options
                              [(:label "1") (:label "2") (:label "3")
                               (:label "4") (:label "5") (:label "6")
                               (:label "7")])
            "Choose")
           ("select" (:prompt "Which?" :multi t :options [(:label "1")])
            "Choose")
           ("approve" (:tool "bash" :tool-id "c9" :call-summary "ls") "Reject")
           ("auth.device-code" (:provider "p" :url "https://a" :code "X") nil)
           ("auth.password" (:prompt "Key") "Enter")
           ("grant-stage-tool" (:tool "bash" :args-summary "ls") "Deny")
           ("approve-subagent-envelope" (:subagent-id "x" :depth 1) "Deny")))
      (edn-bridge-test-with-chat (conn _sent)
        (let ((titles nil))
          (let ((edn-bridge-interact-functions
                 (list (lambda (title) (push title titles)))))
            (edn-bridge-parts-tests-ask conn kind payload :subagent-id "scout"
                                        :session-id "s9")
            (push kind asked)
            (ert-info (kind)
              (should (string-match-p "^\\[subagent scout\\] "
                                      (edn-bridge-test-transcript)))
              (should (string-prefix-p "[subagent scout] " (car titles)))
              (when button
                (let ((prompts (edn-bridge-parts-tests-prompts
                                (lambda ()
                                  (edn-bridge-parts-tests-push button)))))
                  (should prompts)
                  (dolist (prompt prompts)
                    (should (string-prefix-p "[subagent scout] " prompt))))))))))
    ;; Every kind of the protocol is among them.
    (dolist (row edn-bridge-interact--kinds)
      (unless (string-match-p "\\`\\(dialog-.*\\|unknown\\)\\'" (car row))
        (should (member (car row) asked)))))
  (dolist (kind '("confirm" "select" "input"))
    (edn-bridge-test-with-chat (conn _sent)
      (edn-bridge-test-event conn "ui/dialog-requested" :dialog-id "d1"
                             :kind kind :title "T" :subagent-id "scout"
                             :options [(:value "a" :label "A")])
      (should (string-match-p "^\\[subagent scout\\] T"
                              (edn-bridge-test-transcript))))))

(ert-deftest edn-bridge-interact-cancels-and-refuses-dialogs ()
  (pcase-dolist (`(,button ,op ,params)
                 '(("No" "resolve_dialog" (:dialog-id "d1" :result :false))
                   ("Cancel" "cancel_dialog" (:dialog-id "d1"))))
    (edn-bridge-test-with-chat (conn sent)
      (edn-bridge-test-event conn "ui/dialog-requested" :dialog-id "d1"
                             :kind "confirm" :title "T" :message "Really?")
      (should (string-match-p "Really" (edn-bridge-test-transcript)))
      (edn-bridge-parts-tests-push button)
      (should (equal (plist-get (car sent) :op) op))
      (should (equal (plist-get (car sent) :params) params)))))

(ert-deftest edn-bridge-interact-takes-the-draft-as-an-answer ()
  (edn-bridge-test-with-chat (conn sent)
    (edn-bridge-parts-tests-ask conn "ask" '(:prompt "Why?" :multiline t))
    (should-error (edn-bridge-parts-tests-push "Answer with") :type 'user-error)
    (edn-bridge-transcript-set-draft "Two\nlines")
    (edn-bridge-parts-tests-push "Answer with")
    (should (equal (plist-get (plist-get (car sent) :params) :value)
                   '(:text "Two\nlines")))
    (should (equal (edn-bridge-transcript-draft) ""))))

(ert-deftest edn-bridge-chat-finishes-a-login-with-a-code-that-is-not-shown ()
  (edn-bridge-test-with-chat (conn sent)
    (edn-bridge-test-event conn "command-result" :type "login_start"
                           :message "Open https://a.b/c")
    (let ((given nil))
      (cl-letf (((symbol-function 'read-passwd)
                 (lambda (&rest _) (copy-sequence "c0de")))
                ((symbol-function 'edn-bridge-rpc--send)
                 (lambda (_conn frame)
                   (push frame sent)
                   (setq given (edn-bridge-edn-print-string
                                (plist-get frame :params))))))
        (edn-bridge-parts-tests-push "Enter it"))
      (should (equal given "{:input \"c0de\"}"))
      (edn-bridge-test-answer conn sent "login_complete"
                              :provider '(:id "p" :name "Provider")
                              :logged-in t))
    (let ((text (edn-bridge-test-transcript)))
      (should (string-match-p "Logged in to Provider" text))
      (should-not (string-match-p "c0de" text)))))

;;;; Attention

(ert-deftest edn-bridge-attention-says-which-session-needs-the-user ()
  (edn-bridge-test-with-chat (conn _sent)
    (let* ((told nil)
           (edn-bridge-attention-notify-function
            (lambda (title text) (push (list title text) told)))
           (global-mode-string nil))
      (unwind-protect
          (progn
            (edn-bridge-attention-mode)
            (should (member '(:eval edn-bridge-attention--lighter)
                            global-mode-string))
            (edn-bridge-parts-tests-ask conn "confirm" '(:prompt "Sure?"))
            (should (equal told (list (list (buffer-name) "Sure?"))))
            (should (equal edn-bridge-attention--lighter " edn:1?"))
            (save-window-excursion
              (with-temp-buffer
                (edn-bridge-attention-next))
              (should (looking-at-p "\\[No"))
              (should (eq (window-buffer) (current-buffer))))
            (edn-bridge-test-event conn "interaction/answered"
                                   :interaction-id "i1" :status "accepted")
            (should (equal edn-bridge-attention--lighter ""))
            (edn-bridge-test-event conn "session/updated" :session-id "s1"
                                   :is-streaming t)
            (edn-bridge-test-event conn "session/updated" :session-id "s1"
                                   :is-streaming :false)
            (should (equal (cadr (car told)) "The turn is done"))
            (should (equal edn-bridge-attention--lighter " edn:1✓"))
            (save-window-excursion
              (set-window-buffer nil (current-buffer))
              (edn-bridge-attention--on-view (selected-frame)))
            (should (equal edn-bridge-attention--lighter "")))
        (edn-bridge-attention-mode -1))
      (should-not global-mode-string)
      (should-error (edn-bridge-attention-next) :type 'user-error))))

(ert-deftest edn-bridge-attention-shows-notifications ()
  (edn-bridge-test-with-chat (conn _sent)
    (let ((inhibit-message t))
      (edn-bridge-test-event conn "ui/notification" :id "n1" :level "info"
                             :message "By the way")
      (should-not (string-match-p "By the way" (edn-bridge-test-transcript)))
      (edn-bridge-test-event conn "ui/notification" :id "n2" :level "error"
                             :message "The hook failed" :extension-id "x")
      (should (string-match-p "The hook failed" (edn-bridge-test-transcript)))
      (edn-bridge-test-event conn "diagnostic" :code "c" :message "Repaired"))))

;;;; Jobs, widgets, statuses

(ert-deftest edn-bridge-jobs-are-listed-inspected-and-cancelled ()
  (edn-bridge-test-with-chat (conn sent)
    (let ((chat (current-buffer)))
      (save-window-excursion
        (edn-bridge-jobs)
        (unwind-protect
            (let ((jobs (current-buffer)))
              (edn-bridge-test-answer
               conn sent "list_background_jobs"
               :jobs [(:id "j1" :status "running" :command "make\n all")
                      (:id "j2" :status "done" :command "ls")])
              (should (string-match-p "running +make all +j1" (buffer-string)))
              (goto-char (point-min))
              (edn-bridge-jobs-inspect)
              (should (equal (plist-get (car sent) :params) '(:job-id "j1")))
              (edn-bridge-test-answer conn sent "inspect_background_job"
                                      :job '(:id "j1" :output "built"))
              (should (string-match-p
                       "built" (with-current-buffer "*edn-bridge job*"
                                 (buffer-string))))
              (set-buffer jobs)
              (edn-bridge-jobs-cancel)
              (should (equal (plist-get (car sent) :op)
                             "cancel_background_job"))
              (edn-bridge-test-answer conn sent "cancel_background_job"
                                      :accepted t)
              (should (equal (plist-get (car sent) :op)
                             "list_background_jobs"))
              ;; What changes is shown while it is looked at.
              (setcdr sent nil)
              (set-window-buffer nil jobs)
              (with-current-buffer chat
                (edn-bridge-test-event conn "job/updated" :job '(:id "j1")))
              (should (equal (plist-get (car sent) :op)
                             "list_background_jobs")))
          (kill-buffer (format "*%s jobs*"
                               (string-trim (buffer-name chat) "\\*" "\\*"))))))))

(ert-deftest edn-bridge-jobs-show-widgets-and-statuses-above-the-footer ()
  (edn-bridge-test-with-chat (conn _sent)
    (cl-flet ((shown () (overlay-get edn-bridge-transcript--footer
                                     'before-string)))
      (edn-bridge-test-event
       conn "ui/widgets-updated"
       :widgets [(:placement "footer" :extension-id "workflow" :widget-id "w1"
                  :content-lines ["review: 2/3" (:text "stage: look")])])
      (edn-bridge-test-event conn "ui/status-updated"
                             :statuses [(:extension-id "x" :text "indexing")])
      (should (string-match-p "review: 2/3\nstage: look\nindexing" (shown)))
      (edn-bridge-test-event conn "ui/widget-specs-updated")
      (edn-bridge-test-event conn "ui/widgets-updated" :session-id "s2"
                             :widgets [])
      (should (string-match-p "review" (shown)))
      (edn-bridge-test-event conn "ui/widgets-updated" :widgets [])
      (should-not (string-match-p "review" (shown)))
      (should (string-match-p "indexing" (shown)))
      (edn-bridge-test-event conn "ui/status-updated" :statuses [])
      (should-not (string-match-p "indexing" (shown)))
      ;; Another session has its own.
      (edn-bridge-test-event conn "ui/status-updated"
                             :statuses [(:text "waiting")])
      (edn-bridge-test-event conn "session/resumed" :session-id "s2")
      (should-not (string-match-p "waiting" (shown))))))

;;;; Actions

(ert-deftest edn-bridge-actions-wait-behind-a-button-and-report ()
  (let ((data '(:request-id "r1"
                :ui/action (:ui/action-id "a" :ui/action-kind :select
                            :ui/action-name :select-session
                            :ui/prompt "Select a live session"
                            :ui/order :preserve
                            :ui/items
                            [(:ui.item/id "1" :ui.item/label "B"
                              :ui.item/value (:action/kind :switch-session
                                              :action/session-id "s2"))
                             (:ui.item/id "2" :ui.item/label "A"
                              :ui.item/value nil)]))))
    (edn-bridge-test-with-chat (conn sent)
      (edn-bridge-actions--offer conn data)
      (should-not sent)
      (cl-letf (((symbol-function 'completing-read)
                 (lambda (_prompt collection &rest _)
                   (car (all-completions "" collection)))))
        (edn-bridge-parts-tests-push "Choose"))
      (should (equal (plist-get (car sent) :params)
                     '(:request-id "r1" :action-name "select-session"
                       :status "submitted"
                       :value (:action/kind :switch-session
                               :action/session-id "s2")))))
    (edn-bridge-test-with-chat (conn sent)
      (cl-letf (((symbol-function 'completing-read)
                 (lambda (&rest _) (signal 'quit nil))))
        (edn-bridge-actions--choose conn data))
      (should (equal (plist-get (plist-get (car sent) :params) :status)
                     "cancelled")))))

;;;; Completion

(defun edn-bridge-parts-tests-complete (draft)
  "Return what completes DRAFT at its end."
  (edn-bridge-transcript-set-draft draft)
  (pcase (edn-bridge-complete-at-point)
    (`(,start ,end ,table . ,_)
     (all-completions (buffer-substring-no-properties start end) table))))

(ert-deftest edn-bridge-complete-completes-in-the-draft ()
  (edn-bridge-test-with-chat (_conn _sent)
    (setq edn-bridge-complete--files
          (cons (float-time) '("src/main.rs" "src/lib.rs" "README.md"))
          edn-bridge-complete--models '((:provider "embedded" :id "tiny")))
    (should (equal (edn-bridge-parts-tests-complete "/thi") '("thinking")))
    (should (equal (edn-bridge-parts-tests-complete "/thinking m")
                   '("minimal" "medium")))
    (should (equal (edn-bridge-parts-tests-complete "/model e") '("embedded")))
    (should (equal (edn-bridge-parts-tests-complete "look at @src/")
                   '("src/main.rs" "src/lib.rs")))
    (should (equal (edn-bridge-parts-tests-complete "@REA") '("README.md")))
    (should-not (edn-bridge-parts-tests-complete "mail me a@REA"))
    (should-not (edn-bridge-parts-tests-complete "plain text"))))

(ert-deftest edn-bridge-complete-tells-things-of-one-name-apart ()
  (cl-letf (((symbol-function 'completing-read)
             (lambda (_prompt collection &rest _)
               (should (equal (all-completions "" collection)
                              '("x" "x <2>" "a")))
               "x <2>")))
    (should (equal (edn-bridge-complete-choose
                    "P: " '((1 "x") (2 "x") (3 "a")) #'cadr)
                   '(2 "x")))))

;;;; Log

(ert-deftest edn-bridge-log-masks-secrets-before-it-keeps-them ()
  (pcase-dolist
      (`(,text ,masked)
       '(("{:secret \"s3cret\"}" "{:secret \"•••\"}")
         ("{:value {:secret \"a\\\"b\"} :x 1}" "{:value {:secret \"•••\"} :x 1}")
         ("{:api-key \"k\" :access-token \"t\"}"
          "{:api-key \"•••\" :access-token \"•••\"}")
         ("{:input \"code\"}" "{:input \"•••\"}")
         ("{:usage {:input 12}}" "{:usage {:input 12}}")
         ("{:secret \"cut of" "{:secret \"•••\"")
         ("{:text \"plain\"}" "{:text \"plain\"}")))
    (should (equal (edn-bridge-log-mask text) masked)))
  (edn-bridge-test-with-connection (conn _sent _events)
    (edn-bridge-log--keep conn 'out "{:secret \"s3cret\"}")
    (edn-bridge-log--keep conn 'in (make-string 100000 ?x))
    (let ((kept (format "%S" (ring-elements
                              (gethash conn edn-bridge-log--rings)))))
      (should-not (string-match-p "s3cret" kept))
      (should (< (length kept) 5000)))))

;;;; Asking from other buffers

(ert-deftest edn-bridge-ask-brings-the-region-to-the-chat ()
  (edn-bridge-test-with-chat (_conn sent)
    (let* ((chat (current-buffer))
           (edn-bridge-ask-open-function (lambda () chat)))
      (with-temp-buffer
        (rename-buffer "notes" t)
        (insert "one\ntwo ```\nthree\n")
        (save-window-excursion
          (edn-bridge-ask-region 5 13 "What is this?")
          (edn-bridge-add-region 1 5)))
      (should (string-match-p
               "\\`What is this\\?\n\nnotes.*:2\n````fundamental\ntwo ```\n````\\'"
               (plist-get (plist-get (car sent) :params) :message)))
      (should (string-match-p "\\`notes.*:1\n```fundamental\none\n```\n\\'"
                              (edn-bridge-transcript-draft))))))

(ert-deftest edn-bridge-ask-takes-what-is-dropped ()
  (edn-bridge-test-with-chat (_conn sent)
    (let* ((chat (current-buffer))
           (edn-bridge-ask-open-function (lambda () chat))
           (folder (file-name-as-directory (make-temp-file "edn-bridge" t)))
           (inhibit-message t))
      (setq default-directory folder)
      (unwind-protect
          (progn
            (write-region "xyz" nil (concat folder "dot.png") nil 'quiet)
            (write-region "text" nil (concat folder "a.txt") nil 'quiet)
            (should (assoc "^file:" dnd-protocol-alist))
            (save-window-excursion
              (dolist (name '("dot.png" "a.txt"))
                (edn-bridge-ask--on-drop (concat "file://" folder name) 'copy)))
            (should (equal (edn-bridge-transcript-draft) "@a.txt "))
            (should (equal edn-bridge-input-images
                           '((:mime-type "image/png" :data "eHl6"))))
            (should-error (edn-bridge-add-image (concat folder "a.txt"))
                          :type 'user-error)
            ;; What is refused is not lost.
            (edn-bridge-transcript-set-draft "Look")
            (edn-bridge-input-send)
            (should-not edn-bridge-input-images)
            (edn-bridge-rpc--dispatch-frame
             _conn (list :kind :error :id (plist-get (car sent) :id)
                         :op "prompt" :error-code "request/invalid-params"
                         :error-message "No"))
            (should (= 1 (length edn-bridge-input-images))))
        (delete-directory folder t)))))

(ert-deftest edn-bridge-ask-sends-images-once ()
  (edn-bridge-test-with-chat (_conn sent)
    (let ((inhibit-message t))
      (edn-bridge-ask-attach "image/png" "\211PNG"))
    (edn-bridge-transcript-set-draft "Look")
    (edn-bridge-input-send)
    (should (equal (plist-get (plist-get (car sent) :params) :images)
                   [(:mime-type "image/png" :data "iVBORw==")]))
    (edn-bridge-transcript-set-draft "And")
    (edn-bridge-input-send)
    (should-not (plist-get (plist-get (car sent) :params) :images))))

;;;; Sessions as a tree

(ert-deftest edn-bridge-tree-puts-forks-under-their-source ()
  (with-temp-buffer
    (edn-bridge-tree-mode)
    (edn-bridge-tree--show
     '((:id "c" :display-name "C" :parent-session-id "a")
       (:id "a" :display-name "A")
       (:id "b" :display-name "B" :parent-session-id "gone" :is-streaming t)
       (:id "d" :display-name "D" :parent-session-id "c"))
     "b")
    (should (equal (split-string (buffer-string) "\n" t "[ ]+\\'")
                   '("○ A" "  ○ C" "    ○ D" "● B  running")))))

;;;; Footer

(ert-deftest edn-bridge-footer-shows-lines-and-statuses ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-test-event conn "footer/updated" :session-id "s1"
                           :path-line "~/x (main)" :stats-line "↑1 ↓2")
    (edn-bridge-test-event conn "ui/widgets-updated"
                           :widgets [(:widget-id "w" :content-lines ["stage 2/3"])
                                     (:widget-id "session-tree"
                                      :content-lines ["no"])])
    (should (string-match-p
             "\nstage 2/3\n~/x (main)\n↑1 ↓2\\'"
             (overlay-get edn-bridge-transcript--footer 'before-string)))))

(provide 'edn-bridge-parts-tests)

;;; edn-bridge-parts-tests.el ends here
